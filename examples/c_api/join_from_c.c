/* A line y = w x + b, fitted by a loop in C as a peer of a run.
 *   join_from_c RUN_FILE_OR_JOIN_STRING DIRECTORY */
#include <dedloc/dedloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static unsigned long long state = 1;

static float draw(void) { /* from -1 to 1 */
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (float)(state >> 40) / (float)(1 << 23) - 1.0f;
}

/* The mean loss over 64 samples of y = 3 x - 1, and its gradient. */
static float compute(const float* parameters, float* gradient) {
    float loss = 0;
    gradient[0] = gradient[1] = 0;
    for (int i = 0; i < 64; ++i) {
        const float x = draw();
        const float error = parameters[0] * x + parameters[1] - (3 * x - 1);
        loss += error * error / 64;
        gradient[0] += 2 * error * x / 64;
        gradient[1] += 2 * error / 64;
    }
    return loss;
}

int main(int argc, char** argv) {
    if (argc != 3) return fprintf(stderr, "usage: join_from_c RUN_FILE|JOIN_STRING DIRECTORY\n"), 2;
    float parameters[2] = {0, 0};
    float gradient[2];
    const int64_t shape[1] = {2};
    const dedloc_tensor tensor = {.name = "line", .shape = shape, .rank = 1, .kind = DEDLOC_TRAINED,
                                  .type = "Float", .values = parameters, .bytes = sizeof parameters};
    const int joins = strncmp(argv[1], "dedloc1", 7) == 0;
    const dedloc_options options = {.run_file = joins ? NULL : argv[1],
                                    .join = joins ? argv[1] : NULL,
                                    .directory = argv[2]};
    dedloc_loop* loop = NULL;
    dedloc_error error = {0};
    if (!dedloc_join(&options, &tensor, 1, NULL, &loop, &error))
        return fprintf(stderr, "%s\n", error.message), 1;
    char text[1024];
    dedloc_join_string(loop, text, sizeof text);
    printf("join: %s\n", text);
    fflush(stdout);
    state = dedloc_seed(loop);
    while (!dedloc_finished(loop)) {
        const float loss = compute(parameters, gradient);
        void* values[1] = {parameters};
        const float* gradients[1] = {gradient};
        dedloc_place(loop, values, gradients);
        const int made = dedloc_step(loop, 64, loss, &error);
        if (made < 0) return fprintf(stderr, "%s\n", error.message), 1;
    }
    if (!dedloc_leave(loop, 10, &error)) return fprintf(stderr, "%s\n", error.message), 1;
    dedloc_state_hash(loop, text, sizeof text);
    printf("w %.2f b %.2f\nstate %s\n", parameters[0], parameters[1], text);
    dedloc_close(loop);
    return fabsf(parameters[0] - 3) < 0.2f && fabsf(parameters[1] + 1) < 0.2f ? 0 : 1;
}
