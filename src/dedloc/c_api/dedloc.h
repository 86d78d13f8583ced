/* dedloc's C interface: a training loop of one's own as a peer of a run, over plain memory.
 *
 *   dedloc_loop* loop = NULL;
 *   dedloc_error error = {0};
 *   if (!dedloc_join(&options, tensors, count, NULL, &loop, &error)) { puts(error.message); … }
 *   while (!dedloc_finished(loop)) {
 *       … a forward and a backward pass …
 *       dedloc_place(loop, values, gradients);
 *       int has_new_parameters = dedloc_step(loop, samples, mean_loss, &error);   // -1: error
 *   }
 *   dedloc_leave(loop, 10.0, &error);
 *   dedloc_close(loop);
 *
 * The rules are those of dedloc/train/session.h. Shapes: a tensor is `count` elements in a row.
 * Memory: the caller keeps the tensors' memory for as long as the loop is open; strings that are
 * passed are copied. Nothing throws. Thread: one at a time for each loop. dedloc_status_json,
 * dedloc_next_event and the numbers below it: any. After fork() only the parent may use a loop. */
#ifndef DEDLOC_H
#define DEDLOC_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DEDLOC_API __attribute__((visibility("default")))

typedef struct dedloc_loop dedloc_loop;

/* As dedloc/base/result.h has them. */
enum dedloc_error_kind {
    DEDLOC_OK = 0,
    DEDLOC_TIMEOUT = 1,
    DEDLOC_OVERLOADED = 2,
    DEDLOC_PEER_GONE = 3,
    DEDLOC_PEER_BROKE_PROTOCOL = 4,
    DEDLOC_NOT_FOUND = 5,
    DEDLOC_DENIED = 6,
    DEDLOC_UNSUPPORTED = 7,
    DEDLOC_CANCELLED = 8,
    DEDLOC_BAD_INPUT = 9,
    DEDLOC_CONFLICT = 10,
    DEDLOC_LOCAL_FAULT = 11,
    DEDLOC_CANNOT_COMPUTE = 12
};

typedef struct dedloc_error {
    int32_t kind;
    char message[2044]; /* one sentence for people, UTF-8, cut where it is longer */
} dedloc_error;

/* What a loop can do beyond gradients of its own. Called on the caller's thread, within
 * dedloc_step() and dedloc_leave(). Each may be NULL; 0 says that it failed. */
typedef struct dedloc_loop_calls {
    void* self;
    /* A forward and a backward pass of samples number begin to end - 1 of the peer `author`: the
     * model's present gradient is then that of their mean loss. They are a pure function of author
     * and number, so that peers of a robust run can check each other. Where the tensors lie in
     * plain memory it calls dedloc_place() in the end. */
    int (*compute)(void* self, const char* author, uint64_t begin, uint64_t end, double* mean_loss);
    /* Measures the model as it is on held-out samples; accuracy: NaN where there is none. */
    int (*evaluate)(void* self, double* loss, double* accuracy, uint64_t* samples);
    uint64_t evaluate_every; /* steps; 0: as the run file says */
} dedloc_loop_calls;

typedef struct dedloc_options {
    const char* run_file;  /* host a new run from this file… */
    const char* join;      /* …or join one by its join string */
    const char* resume;    /* host: go on from this checkpoint or folder of checkpoints */
    const char* directory; /* identity and bookkeeping; NULL: "dedloc-peer" */
    const char* name;      /* for people */
    /* Where to listen, one a line: "127.0.0.1:0" (this machine alone, any free port),
     * "0.0.0.0:4001", "[::]:4001", or multiaddrs. NULL: "0.0.0.0:0". Empty or "none": others cannot
     * dial this peer. */
    const char* listen;
    /* Where others reach this peer, if not there, one a line: "203.0.113.7:4001",
     * "example.org:4001", or multiaddrs. */
    const char* announce;
    const char* relays; /* multiaddrs with /p2p/<id> to stay connected to; one a line */
    double patience_s;  /* to find the run and its state; 0: a minute */
    /* Asked every 20 ms while a call waits, on the caller's thread; 0 makes it return CANCELLED. */
    int (*goes_on)(void* self);
    void* self;
    const dedloc_loop_calls* calls; /* copied; NULL: none */
    const char* admit; /* host: "list": by invitation (`dedloc invite`); NULL: as the file says */
    const char* run_text; /* instead of run_file: the text of one */
    /* The longest that dedloc_step() and dedloc_leave() wait before they return CANCELLED, to be
     * called again: for languages that handle signals between calls; goes_on is then asked in
     * dedloc_join() alone. 0: as long as it takes. */
    double wait_s;
    const char* tensorboard; /* a folder that gets event files of TensorBoard; NULL: none */
} dedloc_options;

enum dedloc_tensor_kind {
    DEDLOC_TRAINED = 0,  /* a parameter that needs a gradient */
    DEDLOC_CONSTANT = 1, /* a frozen parameter: compared, never sent */
    DEDLOC_BUFFER = 2,   /* moves by the average of its changes */
    DEDLOC_CONSTANT_BUFFER = 3,
    DEDLOC_PRIVATE_BUFFER = 4 /* only its name is compared */
};

/* Parameters first, then buffers; in the order in which the model registers them. */
typedef struct dedloc_tensor {
    const char* name;
    const int64_t* shape;
    size_t rank;
    int32_t kind;
    /* A second name of a tensor that was there before (tied weights): compared, not trained. */
    int32_t is_repeated;
    const char* type; /* as libtorch spells it: Float, Long, Int, Byte, Bool, … */
    void* values;
    size_t bytes;
    /* Of a trained one: 1 where the two fields below count. They must be the same on all peers. */
    int32_t has_group;
    double rate_factor;   /* of the learning rate */
    double weight_decay;  /* below 0: the run file's, which leaves vectors out */
    int32_t is_no_matrix; /* 1: muon leaves it to AdamW (an embedding, say) */
} dedloc_tensor;

/* How to reach a model that is not in plain memory (on a device, say): called on the caller's
 * thread, with fp32 vectors on the CPU that are valid during the call: the trained parameters, then
 * the averaged buffers, each in the order of the tensors. See dedloc/train/model.h. */
typedef struct dedloc_model_calls {
    void* self;
    void (*load)(void* self, const float* parameters, const float* buffers);
    void (*store)(void* self, float* parameters, float* buffers);
    int (*has_gradient)(void* self);
    int (*is_sound)(void* self, double norm_max);
    void (*add)(void* self, double scale);
    void (*leave_out)(void* self);
    void (*forget_gradient)(void* self);
    void (*take_sum)(void* self, float* gradient_sum);
    void (*take_buffers)(void* self, float* changes, double scale);
    void (*forget_sum)(void* self);
} dedloc_model_calls;

/* Returns when the model holds the run's present parameters. `calls`: NULL where the tensors lie in
 * plain memory (trained ones: Float; averaged buffers: Float, Long, Int, Byte or Bool).
 * 0: error. */
DEDLOC_API int dedloc_join(const dedloc_options* options,
                           const dedloc_tensor* tensors,
                           size_t count,
                           const dedloc_model_calls* calls,
                           dedloc_loop** loop,
                           dedloc_error* error);
/* Plain memory only: where the trained tensors and averaged buffers lie now (without repeated or
 * constant ones), and the trained ones' gradients (NULL: none). Before each dedloc_step(), and
 * before dedloc_leave() if the memory has moved. */
DEDLOC_API void dedloc_place(dedloc_loop* loop, void* const* values, const float* const* gradients);
/* After a backward pass of the MEAN loss over `samples` samples (NaN: no loss); or without one,
 * where there is dedloc_loop_calls.compute, which then is called for the samples that come next.
 * 1: the model has new parameters; 0: not yet (in a run with averaging.delayed a later call loads
 * them); -1: error. Where it was CANCELLED the step is still being made: call it again, which waits
 * on. */
DEDLOC_API int dedloc_step(dedloc_loop* loop, int64_t samples, double mean_loss, dedloc_error*);
/* Forgets what was summed since the last global step. */
DEDLOC_API void dedloc_drop(dedloc_loop* loop);
/* Loads the run's present state into the model, whatever that holds. */
DEDLOC_API void dedloc_reload(dedloc_loop* loop);
/* Hands in what was computed if a step comes in time, says goodbye, loads the last state, saves it.
 * 0: error, CANCELLED among them; it can be called again and does what is left to do, with the
 * shortest patience that it was given. */
DEDLOC_API int dedloc_leave(dedloc_loop* loop, double patience_s, dedloc_error* error);
/* Frees it; leaves first, waiting little, if that was not done. */
DEDLOC_API void dedloc_close(dedloc_loop* loop);

DEDLOC_API int dedloc_finished(const dedloc_loop* loop);
DEDLOC_API uint64_t dedloc_global_step(const dedloc_loop* loop);
DEDLOC_API uint64_t dedloc_seed(const dedloc_loop* loop); /* for generators of samples */
/* The number of the first sample of the next dedloc_step(): those of this peer are numbered. */
DEDLOC_API uint64_t dedloc_next_sample(const dedloc_loop* loop);
DEDLOC_API uint64_t dedloc_target_batch(const dedloc_loop* loop);
DEDLOC_API double dedloc_learning_rate(const dedloc_loop* loop); /* of the next step */
/* Texts: written to `out` with a final 0, cut to `size`; returns the whole length. */
DEDLOC_API size_t dedloc_join_string(const dedloc_loop* loop, char* out, size_t size);
DEDLOC_API size_t dedloc_peer_id(const dedloc_loop* loop, char* out, size_t size);
DEDLOC_API size_t dedloc_run_file(const dedloc_loop* loop, char* out, size_t size); /* its text */
DEDLOC_API size_t dedloc_state_hash(const dedloc_loop* loop, char* out, size_t size);
/* {"self": id, "peers": [{"id", "name", "role", "phase", "step", "samples", …}]} */
DEDLOC_API size_t dedloc_status_json(const dedloc_loop* loop, char* out, size_t size);
/* The oldest event that was not read (docs/events.md), one JSON object; 0: none. The newest 1,024
 * are kept. It is taken off only if it fits. */
DEDLOC_API size_t dedloc_next_event(dedloc_loop* loop, char* out, size_t size);

/* The web page of this loop's peer, on threads of its own (docs/web.md). `where`: a port ("8470";
 * "0": any that is free), or ADDRESS:PORT; NULL: the usual port, or a free one. A loop has one
 * page: once it is open this does nothing. It shows what has happened before as far as the newest
 * 2,048 events tell. 0: error. */
DEDLOC_API int dedloc_web(dedloc_loop* loop, const char* where, dedloc_error* error);
/* The page's address, with the token that lets in; empty: there is no page. */
DEDLOC_API size_t dedloc_web_address(const dedloc_loop* loop, char* out, size_t size);

/* Experts that others lend (`dedloc serve`), as a layer of the model: the gate is the caller's, and
 * gives scores of the grid's coordinates. Thread: one at a time for each mixture, which is closed
 * before its loop. */
typedef struct dedloc_mixture dedloc_mixture;
typedef struct dedloc_mixture_options {
    const char* name;      /* of the grid: "ffn" */
    const uint32_t* sizes; /* of its axes */
    size_t dimensions;
    uint64_t best;     /* experts that each row asks; 0: 4 */
    uint64_t at_least; /* of them must answer, or the row is lost; 0: 1 */
} dedloc_mixture_options;
/* 0: error. */
DEDLOC_API int dedloc_mixture_open(dedloc_loop* loop,
                                   const dedloc_mixture_options* options,
                                   dedloc_mixture** mixture,
                                   dedloc_error* error);
/* inputs, outputs: rows x width; scores: rows x the sum of the sizes. Outputs of a lost row are
 * zeros, and lost (may be NULL) is 1. Returns the pass, for backward or forget; 0: error. It waits
 * for experts for half a minute. */
DEDLOC_API uint64_t dedloc_mixture_forward(dedloc_mixture* mixture,
                                           const float* inputs,
                                           const float* scores,
                                           size_t rows,
                                           size_t width,
                                           float* outputs,
                                           uint8_t* lost,
                                           dedloc_error* error);
/* Once for a pass; the experts update. Of more than 256 passes the oldest is forgotten. 0: error.
 */
DEDLOC_API int dedloc_mixture_backward(dedloc_mixture* mixture,
                                       uint64_t pass,
                                       const float* output_gradients,
                                       float* input_gradients,
                                       float* score_gradients,
                                       dedloc_error* error);
DEDLOC_API void dedloc_mixture_forget(dedloc_mixture* mixture, uint64_t pass);
DEDLOC_API void dedloc_mixture_close(dedloc_mixture* mixture);

/* A run's checkpoint, to use or to measure its model: no run needs to be open. */
typedef struct dedloc_checkpoint dedloc_checkpoint;
/* path: a checkpoint, a folder of checkpoints, or a peer's folder: the newest that is intact. The
 * tensors describe a model that is built as the run's peers build it (parameter groups may be left
 * out); their memory is not written to. 0: error. */
DEDLOC_API int dedloc_checkpoint_open(const char* path,
                                      const dedloc_tensor* tensors,
                                      size_t count,
                                      dedloc_checkpoint** checkpoint,
                                      dedloc_error* error);
/* The trained parameters, and the averaged buffers, in the order of the tensors. */
DEDLOC_API const float* dedloc_checkpoint_parameters(const dedloc_checkpoint* checkpoint);
DEDLOC_API const float* dedloc_checkpoint_buffers(const dedloc_checkpoint* checkpoint);
/* {"path", "step", "samples", "state_hash", "run_file", "skipped": newer ones that are damaged} */
DEDLOC_API size_t dedloc_checkpoint_json(const dedloc_checkpoint* checkpoint,
                                         char* out,
                                         size_t size);
DEDLOC_API void dedloc_checkpoint_close(dedloc_checkpoint* checkpoint);

DEDLOC_API const char* dedloc_version(void);

#ifdef __cplusplus
}
#endif
#endif
