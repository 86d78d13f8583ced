#include "dedloc/cli/run_templates.h"

namespace dedloc::cli {
namespace {

constexpr std::string_view vision_classifier =
    R"(# A dedloc run: what must be equal on all peers.
# Comments and order do not matter; what is left out has the value that is shown here, but for the
# name, which must be there, and [stop]: without it the run ends when its peers leave.
name = "my-run"

[task]
kind = "vision_classifier"
model = "small_cnn"      # or "mlp", "cnn_bn"
data = "fashion-mnist"   # Debian package dataset-fashion-mnist; "fashion-mnist+flip" mirrors half
seed = 1                 # starting parameters and order of samples
precision = "fp32"       # or "bf16": mixed precision, faster on GPUs and on CPUs with AMX or
                         # AVX-512 BF16, slower elsewhere; parameters and averages stay fp32

[batch]
target = 1024            # samples of all peers together for one global step
micro = 64               # samples of one gradient computation of one peer; "auto": each finds its
                         # own by measuring when it starts

[optimizer]
kind = "sgd"             # or "adamw", "lamb"
momentum = 0.9           # sgd
weight_decay = 0.0
gradient_norm_max = 0.0  # clips the averaged gradient; 0: off

[schedule]
kind = "constant"        # or "linear", "cosine": fall to final_fraction at total_steps
peak = 0.1               # the learning rate after the warm-up
warmup_steps = 0
total_steps = 0          # linear and cosine need it
final_fraction = 0.0

# Local updates (DiLoCo), for slow lines: peers make steps of their own, and only the way they have
# gone is averaged. [optimizer] and [schedule] are then those of the outer step; try sgd with
# momentum 0.9, nesterov = true and peak 0.7. For an average every N inner steps of each peer take
# batch.target = N * local.batch * peers. docs/local-updates.md
# [local]
# batch = 64               # samples of one inner step of one peer; a multiple of batch.micro
# [local.optimizer]        # same keys as [optimizer]
# kind = "adamw"
# [local.schedule]         # same keys as [schedule], also in global steps
# peak = 0.001

[averaging]
codec = "fp16"           # what travels: "fp16"; "fp32": twice the bytes and no rounding;
                         # "adaptive": large tensors in 8 bit, half the bytes (docs/codecs.md)
round_deadline_min = "1s"    # nobody is waited for longer than this when rounds are quick …
round_deadline_max = "120s"  # … or than this, however slow they are
quorum_timeout = "10s"   # when most voters are gone for good, the others go on after this time
delayed = false          # true: computing goes on while a step is averaged and made; what is
                         # computed meanwhile goes into the next step, one step stale
leave_out_slow = true    # rounds do without lines that are much too slow for what they bring
# norm_max = 1e6         # longer mean gradients are refused (docs/security.md); 0: any
# group_max = 64         # more trainers than that average in a grid of groups

[stop]                   # the run ends when one of these is reached; 0: no such condition
steps = 1000
samples = 0
accuracy = 0.0           # fraction on the held-out data, e.g. 0.9

[checkpoint]
every = 50               # global steps, 0: never; each peer keeps its newest three

[evaluate]
every = 10               # global steps between measurements of accuracy; 0: never
)";

constexpr std::string_view synthetic =
    R"(# A dedloc run without a model: a bowl whose lowest point is found with noisy gradients.
# It starts in milliseconds and needs no data; for trying out the network.
# `dedloc check` it after a change.
name = "my-run"

[task]
kind = "synthetic"
model = "bowl-4096"      # so many parameters
data = "noise-20ms"      # what one gradient takes, asleep; or "noise": as fast as it goes
seed = 1

[batch]
target = 64              # samples of all peers together for one global step
micro = 4                # samples of one gradient computation of one peer

[schedule]
peak = 0.01

[stop]
steps = 1000

[checkpoint]
every = 100
)";

constexpr std::string_view albert =
    R"(# A dedloc run: ALBERT learns from text, by masked words and the order of sentences.
# `dedloc check` it after a change: memory, samples, time of a round.
name = "my-run"

[task]
kind = "albert"
model = "albert"         # sizes: [albert]
data = "kjv"             # the King James Bible, Debian package bible-kjv. Or, below --data:
                         # "text:books", "jsonl:oscar?weight=0.77, text:wiki?weight=0.23"
seed = 1                 # starting parameters and order of samples
precision = "fp32"       # or "bf16": mixed precision, faster on GPUs and on CPUs with AMX or
                         # AVX-512 BF16, slower elsewhere; parameters and averages stay fp32

[albert]                 # ALBERT-large. Base: hidden 768, layers 12, heads 12, feed_forward 3072
vocabulary = 30000       # at least the tokenizer's
embedding = 128
hidden = 1024
layers = 24
heads = 16
feed_forward = 4096
positions = 512          # at least text.length
dropout = 0.0
attention_dropout = 0.0
classifier_dropout = 0.1

[text]
# See `dedloc tokenizer train --help`.
tokenizer = "vocabulary=8192&normalization=nmt_nfkc_cf&coverage=1"
tokenizer_hash = "none"  # none: of the tokenizer that the host trains or has
corpus_hash = "none"     # none: peers may have different text
length = 512             # tokens of a sample at most
pad_multiple = 8
masked = 0.15            # of the tokens are to be guessed; of those
masked_as_mask = 0.8     # … so many are hidden,
masked_as_random = 0.1   # … so many replaced, the rest left as it is
held_out = 0.02          # of the text, for evaluation
held_out_samples = 256
window_samples = 4096    # within which samples of all sources are shuffled

[batch]
target = 4096            # samples of all peers together for one global step
micro = "auto"           # samples of one gradient computation of one peer: each finds its own by
                         # measuring; or a number for all

[optimizer]
kind = "lamb"
weight_decay = 0.01
beta1 = 0.9
beta2 = 0.999
epsilon = 1e-6
norm_clamp = 10000.0
gradient_norm_max = 1.0  # clips the averaged gradient; 0: off

[schedule]
kind = "linear"          # warm-up, then straight down to final_fraction at total_steps
peak = 0.00176
warmup_steps = 5000
total_steps = 125000
final_fraction = 0.0

# Local updates (DiLoCo), for slow lines: peers make steps of their own, and only the way they have
# gone is averaged. [optimizer] and [schedule] are then those of the outer step; try sgd with
# momentum 0.9, nesterov = true and peak 0.7. For an average every N inner steps of each peer take
# batch.target = N * local.batch * peers. docs/local-updates.md
# [local]
# batch = 32               # samples of one inner step of one peer; a multiple of batch.micro
# [local.optimizer]        # same keys as [optimizer]
# kind = "adamw"
# [local.schedule]         # same keys as [schedule], also in global steps
# peak = 0.0004

[averaging]
codec = "fp16"           # what travels: "fp16"; "fp32": twice the bytes and no rounding;
                         # "adaptive": large tensors in 8 bit, half the bytes (docs/codecs.md)
round_deadline_min = "1s"    # nobody is waited for longer than this when rounds are quick …
round_deadline_max = "120s"  # … or than this, however slow they are
quorum_timeout = "60s"   # when most voters are gone for good, the others go on after this time
delayed = false          # true: computing goes on while a step is averaged and made; what is
                         # computed meanwhile goes into the next step, one step stale
leave_out_slow = true    # rounds do without lines that are much too slow for what they bring
# norm_max = 1e6         # longer mean gradients are refused (docs/security.md); 0: any
# group_max = 64         # more trainers than that average in a grid of groups

[stop]                   # the run ends when one of these is reached; 0: no such condition
steps = 125000
samples = 0
accuracy = 0.0           # fraction of masked words guessed right, on held-out text

[checkpoint]
every = 50               # global steps, 0: never; each peer keeps its newest three

[evaluate]
every = 20               # global steps between measurements on held-out text
)";

constexpr std::string_view demo =
    R"(# The run of ./demo.sh: a small convolutional network learns to tell clothes apart.
name = "demo"

[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
seed = 1

[batch]
target = 1024
micro = 64

[optimizer]
kind = "adamw"
weight_decay = 0.01

[schedule]
kind = "cosine"
peak = 0.01
warmup_steps = 25
total_steps = 300
final_fraction = 0.02

[averaging]
codec = "fp16"
round_deadline_min = "1s"
round_deadline_max = "10s"
quorum_timeout = "30s"

[stop]
steps = 300

[checkpoint]
every = 50

[evaluate]
every = 20
)";

}  // namespace

Result<std::string> run_template(std::string_view task) {
    if (task == "vision_classifier") return std::string(vision_classifier);
    if (task == "albert") return std::string(albert);
    if (task == "synthetic") return std::string(synthetic);
    return make_error(ErrorKind::bad_input,
                      "there is no task '{}'; known: vision_classifier, albert, synthetic",
                      task.substr(0, 64));
}

std::string_view demo_run_file() { return demo; }

}  // namespace dedloc::cli
