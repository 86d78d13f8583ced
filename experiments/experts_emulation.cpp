#include "experiments/experts_emulation.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "dedloc/dht/node.h"
#include "dedloc/experts/ffn_expert.h"
#include "dedloc/experts/mixture.h"
#include "dedloc/experts/server.h"
#include "dedloc/sim/world.h"
#include "dedloc/tasks/fashion_mnist.h"

#include "tests/sim/table_world.h"

namespace dedloc::lab {
namespace {

using experts::ExpertGrid;
using experts::ExpertUid;
using experts::GridScores;
using experts::MixtureClient;
using experts::Tensor;

// An expert whose calls fail by chance: the answer is an error, as of a server that breaks.
class FailingExpert final : public experts::ExpertBackend {
  public:
    FailingExpert(std::unique_ptr<experts::FfnExpert> inner, const double& part, Random random)
        : inner_(std::move(inner)), part_(part), random_(random) {}
    const experts::ExpertSchema& schema() const override { return inner_->schema(); }
    Result<std::vector<Tensor>> forward(const std::vector<Tensor>& inputs) override {
        if (random_.chance(part_)) return failure();
        return inner_->forward(inputs);
    }
    Result<experts::ExpertGradient> gradient(const std::vector<Tensor>& inputs,
                                             const std::vector<Tensor>& gradients) override {
        if (random_.chance(part_)) return failure();
        return inner_->gradient(inputs, gradients);
    }
    void apply(std::span<const float> gradient) override { inner_->apply(gradient); }
    std::vector<state::Section> snapshot() const override { return inner_->snapshot(); }
    Ok load(const std::vector<state::Section>& sections, std::uint64_t updates) override {
        return inner_->load(sections, updates);
    }
    std::uint64_t updates() const override { return inner_->updates(); }
    std::uint64_t bytes() const override { return inner_->bytes(); }

  private:
    static Error failure() { return Error(ErrorKind::cannot_compute, "broken on purpose"); }

    std::unique_ptr<experts::FfnExpert> inner_;
    const double& part_;
    Random random_;
};

// A linear layer inside the trunk's flat vector: weight [to, from], then bias [to].
struct Linear {
    std::size_t offset = 0;
    std::size_t from = 0;
    std::size_t to = 0;

    std::size_t count() const { return to * (from + 1); }
    Tensor forward(const std::vector<float>& trunk, const Tensor& inputs) const {
        const std::vector<std::int64_t> sample{static_cast<std::int64_t>(to)};
        Tensor outputs = experts::zeros(inputs.rows(), sample);
        const float* bias = &trunk[offset + from * to];
        for (std::size_t i = 0; i < inputs.rows(); ++i) {
            const auto row = inputs.row(i);
            for (std::size_t o = 0; o < to; ++o) {
                const float* weight = &trunk[offset + o * from];
                float sum = bias[o];
                for (std::size_t j = 0; j < from; ++j) sum += weight[j] * row[j];
                outputs.values[i * to + o] = sum;
            }
        }
        return outputs;
    }
    // Adds to the trunk's gradient and, where wanted, to the inputs'.
    void backward(const std::vector<float>& trunk,
                  const Tensor& inputs,
                  const Tensor& outer,
                  std::vector<float>& gradient,
                  Tensor* inner) const {
        for (std::size_t i = 0; i < inputs.rows(); ++i)
            for (std::size_t o = 0; o < to; ++o) {
                const float slope = outer.values[i * to + o];
                if (slope == 0) continue;
                gradient[offset + from * to + o] += slope;
                float* weights = &gradient[offset + o * from];
                const float* row = &inputs.values[i * from];
                for (std::size_t j = 0; j < from; ++j) weights[j] += slope * row[j];
                if (!inner) continue;
                const float* weight = &trunk[offset + o * from];
                float* in = &inner->values[i * from];
                for (std::size_t j = 0; j < from; ++j) in[j] += slope * weight[j];
            }
    }
};

struct Client {
    Client(sim::SimNode& machine, dht::DhtNode& table, const EmulationOptions& options)
        : directory(table, machine.host().executor(), machine.clock(), patient()),
          remote(machine.host(), Random(machine.index())) {
        for (std::size_t layer = 0; layer < options.layers; ++layer) {
            experts::MixtureOptions mixture;
            mixture.grid = {.name = "layer" + std::to_string(layer), .sizes = options.grid};
            mixture.best = options.best;
            mixture.beam_width = options.grid.front();
            mixture.search_max = 20s;
            mixtures.push_back(std::make_unique<MixtureClient>(
                machine.host(), directory, remote, std::move(mixture)));
        }
    }
    static experts::DirectoryOptions patient() {
        experts::DirectoryOptions options;
        options.known_for = 600s;
        options.unknown_for = 600s;
        return options;
    }
    experts::Directory directory;
    experts::RemoteExperts remote;
    std::vector<std::unique_ptr<MixtureClient>> mixtures;
};

class Emulation {
  public:
    Emulation(const EmulationData& data, const EmulationOptions& options);
    ~Emulation();
    EmulationResult run();

  private:
    struct Pass {
        std::vector<Tensor> inputs;  // of each layer, and of the head
        std::vector<std::optional<MixtureClient::Passed>> passed;
        Tensor pixels;
        Tensor logits;
        bool whole = false;
    };
    Task<void> declare(std::size_t server, std::vector<ExpertUid> uids);
    Task<void> train(std::size_t trainer);
    Task<void> evaluate(std::size_t first, std::size_t count, std::size_t& right);
    Task<Pass> forward(Client& client,
                       const std::vector<float>& pixels,
                       std::size_t first,
                       std::vector<std::size_t> rows);
    Task<void> step(Client& client, Random& random);
    std::vector<GridScores> scores_of(const Tensor& flat) const;
    void apply(const std::vector<float>& gradient);

    const EmulationData& data_;
    const EmulationOptions& options_;
    double failing_;
    TableWorld table_;
    std::vector<std::unique_ptr<experts::ExpertServer>> servers_;
    std::vector<std::unique_ptr<Client>> clients_;
    Linear stem_;
    std::vector<Linear> gates_;
    Linear head_;
    std::vector<float> trunk_;
    std::vector<std::vector<float>> moments_;
    optim::OptimizerConfig optimizer_;
    std::uint64_t steps_ = 0;
    std::uint64_t begun_ = 0;
    std::uint64_t skipped_ = 0;
};

Emulation::Emulation(const EmulationData& data, const EmulationOptions& options)
    : data_(data), options_(options), failing_(options.failing), table_(options.seed, 5ms) {
    table_.grow(options.servers + options.trainers);
    Random random(options.seed);
    experts::FfnOptions expert;
    expert.width = options.width;
    expert.hidden = options.hidden;
    expert.optimizer = experts::default_optimizer();
    for (std::size_t i = 0; i < options.servers; ++i) {
        sim::SimNode& machine = table_.machine(i);
        servers_.push_back(
            std::make_unique<experts::ExpertServer>(machine.host(), machine.runtime().workers));
        servers_.back()->start();
    }
    std::vector<std::vector<ExpertUid>> at(options.servers);
    for (std::size_t layer = 0; layer < options.layers; ++layer) {
        const ExpertGrid grid{.name = "layer" + std::to_string(layer), .sizes = options.grid};
        for (const ExpertUid& uid : grid.all()) {
            const std::size_t server = random.below(options.servers);
            auto inner = std::make_unique<experts::FfnExpert>(uid, expert);
            servers_[server]->batcher().add(
                uid.text(),
                std::make_shared<FailingExpert>(
                    std::move(inner), failing_, Random(options.seed).fork(uid.text())));
            at[server].push_back(uid);
        }
    }
    std::vector<Task<void>> declares;
    for (std::size_t i = 0; i < options.servers; ++i) declares.push_back(declare(i, at[i]));
    table_.run_all(std::move(declares));
    for (std::size_t i = 0; i < options.trainers; ++i)
        clients_.push_back(std::make_unique<Client>(
            table_.machine(options.servers + i), table_.node(options.servers + i), options));
    std::size_t scores = 0;
    for (const std::uint32_t size : options.grid) scores += size;
    stem_ = {.offset = 0, .from = data.pixels, .to = options.width};
    std::size_t offset = stem_.count();
    for (std::size_t layer = 0; layer < options.layers; ++layer) {
        gates_.push_back({.offset = offset, .from = options.width, .to = scores});
        offset += gates_.back().count();
    }
    head_ = {.offset = offset, .from = options.width, .to = data.classes};
    trunk_.resize(offset + head_.count());
    const auto fill = [&](const Linear& layer) {
        const double bound = 1.0 / std::sqrt(static_cast<double>(layer.from));
        for (std::size_t i = 0; i < layer.count(); ++i)
            trunk_[layer.offset + i] = static_cast<float>(random.uniform(-bound, bound));
    };
    fill(stem_);
    for (const Linear& gate : gates_) fill(gate);
    fill(head_);
    optimizer_ = experts::default_optimizer();
    // At a constant rate stale gradients leave more noise than what is compared.
    optimizer_.schedule.kind = optim::ScheduleKind::linear;
    optimizer_.schedule.total_steps = options.steps;
    moments_.assign(optim::moments_count(optimizer_), std::vector<float>(trunk_.size()));
}

Emulation::~Emulation() {
    std::vector<Task<void>> stops;
    for (auto& server : servers_) stops.push_back(server->stop());
    table_.run_all(std::move(stops));
}

Task<void> Emulation::declare(std::size_t server, std::vector<ExpertUid> uids) {
    const WallSeconds expiration = table_.machine(server).clock().wall_now() + 5 * 86400;
    experts::Directory directory(table_.node(server),
                                 table_.machine(server).host().executor(),
                                 table_.machine(server).clock());
    const TimePoint deadline = table_.machine(server).clock().now() + 600s;
    (void)co_await directory.declare(
        std::move(uids), table_.machine(server).id(), expiration, deadline);
}

std::vector<GridScores> Emulation::scores_of(const Tensor& flat) const {
    std::vector<GridScores> rows;
    for (std::size_t i = 0; i < flat.rows(); ++i) {
        const auto values = flat.row(i);
        GridScores& row = rows.emplace_back();
        std::size_t at = 0;
        for (const std::uint32_t size : options_.grid) {
            row.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(at),
                             values.begin() + static_cast<std::ptrdiff_t>(at + size));
            at += size;
        }
    }
    return rows;
}

Task<Emulation::Pass> Emulation::forward(Client& client,
                                         const std::vector<float>& pixels,
                                         std::size_t first,
                                         std::vector<std::size_t> rows) {
    Pass pass;
    const std::vector<std::int64_t> sample{static_cast<std::int64_t>(data_.pixels)};
    pass.pixels = experts::zeros(rows.size(), sample);
    for (std::size_t i = 0; i < rows.size(); ++i)
        std::copy_n(pixels.begin() + static_cast<std::ptrdiff_t>((first + rows[i]) * data_.pixels),
                    data_.pixels,
                    pass.pixels.values.begin() + static_cast<std::ptrdiff_t>(i * data_.pixels));
    pass.inputs.push_back(stem_.forward(trunk_, pass.pixels));
    for (std::size_t layer = 0; layer < options_.layers; ++layer) {
        std::vector<GridScores> scores =
            scores_of(gates_[layer].forward(trunk_, pass.inputs.back()));
        Tensor inputs = pass.inputs.back();
        auto passed =
            co_await client.mixtures[layer]->forward(std::move(inputs), std::move(scores));
        // A batch with a row that nobody answered is left out.
        if (!passed || passed->any_lost()) co_return pass;
        pass.inputs.push_back(passed->outputs);
        pass.passed.emplace_back(*std::move(passed));
    }
    pass.logits = head_.forward(trunk_, pass.inputs.back());
    pass.whole = true;
    co_return pass;
}

// Softmax and cross-entropy: its gradient in place of the logits.
void to_loss_gradient(Tensor& logits, const std::vector<std::uint8_t>& labels) {
    const std::size_t classes = logits.row_elements();
    for (std::size_t i = 0; i < logits.rows(); ++i) {
        float* row = &logits.values[i * classes];
        const float top = *std::max_element(row, row + classes);
        double sum = 0;
        for (std::size_t j = 0; j < classes; ++j) sum += std::exp(row[j] - top);
        for (std::size_t j = 0; j < classes; ++j) {
            const double probability = std::exp(row[j] - top) / sum;
            row[j] = static_cast<float>((probability - (labels[i] == j ? 1.0 : 0.0)) /
                                        static_cast<double>(logits.rows()));
        }
    }
}

Task<void> Emulation::step(Client& client, Random& random) {
    std::vector<std::size_t> rows;
    std::vector<std::uint8_t> labels;
    for (std::size_t i = 0; i < options_.batch; ++i) {
        rows.push_back(random.below(data_.train_labels.size()));
        labels.push_back(data_.train_labels[rows.back()]);
    }
    Pass pass = co_await forward(client, data_.train, 0, std::move(rows));
    if (!pass.whole) {
        ++skipped_;
        co_return;
    }
    to_loss_gradient(pass.logits, labels);
    std::vector<float> gradient(trunk_.size());
    // The gradients are computed at the trunk as it is now: others have moved it since.
    Tensor outer = pass.inputs.back();
    std::fill(outer.values.begin(), outer.values.end(), 0.0f);
    head_.backward(trunk_, pass.inputs.back(), pass.logits, gradient, &outer);
    for (std::size_t layer = options_.layers; layer-- > 0;) {
        auto inner = co_await client.mixtures[layer]->backward(*std::move(pass.passed[layer]),
                                                               std::move(outer));
        const std::vector<std::int64_t> sample{static_cast<std::int64_t>(gates_[layer].to)};
        Tensor slopes = experts::zeros(options_.batch, sample);
        std::size_t at = 0;
        for (const GridScores& row : inner.scores)
            for (const auto& axis : row)
                for (const float slope : axis) slopes.values[at++] = slope;
        outer = std::move(inner.inputs);
        gates_[layer].backward(trunk_, pass.inputs[layer], slopes, gradient, &outer);
    }
    stem_.backward(trunk_, pass.pixels, outer, gradient, nullptr);
    apply(gradient);
}

void Emulation::apply(const std::vector<float>& gradient) {
    const std::vector<optim::ParameterGroup> whole{
        {.name = "trunk", .offset = 0, .count = trunk_.size(), .decay = false, .trust = false}};
    std::vector<std::span<float>> moments(moments_.begin(), moments_.end());
    (void)optim::step(optimizer_, whole, steps_++, trunk_, gradient, moments);
}

Task<void> Emulation::train(std::size_t trainer) {
    Random random = Random(options_.seed).fork("trainer " + std::to_string(trainer));
    while (begun_ < options_.steps) {
        ++begun_;
        co_await step(*clients_[trainer], random);
    }
}

Task<void> Emulation::evaluate(std::size_t first, std::size_t count, std::size_t& right) {
    std::vector<std::size_t> rows(count);
    for (std::size_t i = 0; i < count; ++i) rows[i] = i;
    const std::size_t trainer = first / count % clients_.size();
    const Pass pass = co_await forward(*clients_[trainer], data_.test, first, std::move(rows));
    if (!pass.whole) co_return;
    for (std::size_t i = 0; i < count; ++i) {
        const auto logits = pass.logits.row(i);
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        right += data_.test_labels[first + i] == static_cast<std::size_t>(best) ? 1 : 0;
    }
}

EmulationResult Emulation::run() {
    sim::LinkOptions slow;
    slow.latency = options_.round_trip / 2 - options_.round_trip / 8;
    slow.jitter = options_.round_trip / 4;
    table_.world.set_default_link(slow);
    const TimePoint begun = table_.world.now();
    std::vector<Task<void>> training;
    for (std::size_t i = 0; i < options_.trainers; ++i) training.push_back(train(i));
    table_.run_all(std::move(training));
    EmulationResult result;
    result.virtual_s = to_seconds(table_.world.now() - begun);
    std::uint64_t calls = 0;
    std::uint64_t failed = 0;
    for (const auto& client : clients_)
        for (const auto& mixture : client->mixtures) {
            calls += mixture->counts().calls;
            failed += mixture->counts().failed;
            result.longest_pass_s =
                std::max(result.longest_pass_s, to_seconds(mixture->counts().longest));
        }
    result.failed_calls = static_cast<double>(failed) / static_cast<double>(calls);
    result.steps_skipped = static_cast<double>(skipped_);
    failing_ = 0;
    constexpr std::size_t test_rows = 100;
    std::size_t right = 0;
    std::vector<Task<void>> tests;
    const std::size_t tested = data_.test_labels.size() / test_rows * test_rows;
    for (std::size_t first = 0; first < tested; first += test_rows)
        tests.push_back(evaluate(first, test_rows, right));
    table_.run_all(std::move(tests), options_.trainers);
    result.accuracy = static_cast<double>(right) / static_cast<double>(tested);
    return result;
}

}  // namespace

EmulationResult emulate(const EmulationData& data, const EmulationOptions& options) {
    return Emulation(data, options).run();
}

Result<EmulationData> small_fashion_mnist() {
    constexpr std::size_t side = tasks::image_side / 2;
    constexpr std::size_t train_count = 20'000;
    constexpr std::size_t test_count = 4'000;
    DEDLOC_TRY(const tasks::FashionMnist all,
               tasks::load_fashion_mnist(tasks::fashion_mnist_directory));
    EmulationData data;
    data.pixels = side * side;
    const auto take = [&](const tasks::LabelledImages& images,
                          std::size_t count,
                          std::vector<float>& pixels,
                          std::vector<std::uint8_t>& labels) {
        for (std::size_t n = 0; n < std::min<std::size_t>(count, images.count); ++n) {
            const std::uint8_t* image = &images.pixels[n * tasks::image_pixels];
            labels.push_back(images.labels[n]);
            for (std::size_t y = 0; y < side; ++y)
                for (std::size_t x = 0; x < side; ++x) {
                    const std::uint8_t* four = image + 2 * (y * tasks::image_side + x);
                    const int sum =
                        four[0] + four[1] + four[tasks::image_side] + four[tasks::image_side + 1];
                    // Mean 0 and variance 1 over the training images, about.
                    pixels.push_back((static_cast<float>(sum) / 1020.0f - 0.286f) / 0.34f);
                }
        }
    };
    take(all.train, train_count, data.train, data.train_labels);
    take(all.test, test_count, data.test, data.test_labels);
    return data;
}

}  // namespace dedloc::lab
