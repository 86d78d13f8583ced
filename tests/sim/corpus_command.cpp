#include "tests/sim/corpus_command.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dedloc/data/piece_exchange.h"
#include "dedloc/membership/secret_authorizer.h"
#include "dedloc/security/hash.h"
#include "dedloc/sim/world.h"
#include "dedloc/text/block_order.h"
#include "dedloc/wire/message.h"

#include "tests/common/exit_codes.h"

namespace dedloc::lab {
namespace {

constexpr std::uint32_t corpus_block_bytes = 32768;
constexpr std::size_t window_blocks = 34;  // 1,024 samples of some 30 a block
constexpr double corpus_rate = 30.0 / corpus_block_bytes;
constexpr Duration join_interval = 4s;
constexpr Duration out_at_most = std::chrono::hours(2);
constexpr Duration corpus_link_latency = 30ms;

Bytes corpus_block(std::uint64_t index) { return Random(index + 1).bytes(corpus_block_bytes); }

// Remembers which pieces were written, and makes them again when they are read: the caches of all
// homes together would not fit in memory.
class RemakingDisk final : public runtime::Disk {
  public:
    explicit RemakingDisk(const data::OwnPieces& own) : own_(own) {}

    Result<Bytes> read(const std::string& path) override {
        std::uint64_t index = 0;
        const std::size_t begin = path.rfind('/') + 1;
        std::from_chars(path.data() + begin, path.data() + path.size(), index);
        DEDLOC_TRY(const data::Piece piece, own_.piece(index));
        return wire::encode(piece);
    }
    Result<void> write_atomically(const std::string&, ByteView) override { return {}; }
    Result<void> append_durably(const std::string&, ByteView) override { return {}; }
    Result<void> remove(const std::string&) override { return {}; }
    Result<std::vector<std::string>> list(const std::string&) override {
        return std::vector<std::string>();
    }

  private:
    const data::OwnPieces& own_;
};

data::OwnPieces corpus_of(std::uint64_t megabytes) {
    const std::uint64_t count = megabytes * 1'000'000 / corpus_block_bytes;
    auto made = data::catalogue_of(
        std::vector<std::uint32_t>(count, corpus_block_bytes),
        Bytes(),
        [](std::uint64_t index) -> Result<Bytes> { return corpus_block(index); });
    DEDLOC_CHECK(made.has_value());
    return *std::move(made);
}

struct CorpusHome {
    CorpusHome(const data::OwnPieces& own,
               std::shared_ptr<const data::Catalogue> catalogue,
               std::span<const text::Block> blocks,
               std::uint64_t cache_bytes,
               std::uint64_t seed)
        : disk(own),
          cache(std::make_shared<data::PieceCache>(disk, "data", catalogue, cache_bytes)),
          order(blocks, corpus_rate, seed, {}) {}

    RemakingDisk disk;
    std::shared_ptr<data::PieceCache> cache;
    text::BlockOrder order;
    std::unique_ptr<data::PieceExchange> exchange;
    std::uint64_t slot = 0;  // of its order
    TimePoint joined;
    Duration first_sample{0};
    Duration waited{0};
    Duration trained{0};
    std::uint64_t windows = 0;
    std::uint64_t missing = 0;
};

class CorpusWorld {
  public:
    explicit CorpusWorld(const CorpusCommand& command)
        : command_(command),
          own_(corpus_of(command.megabytes)),
          catalogue_(std::make_shared<const data::Catalogue>(own_.catalogue)),
          name_(security::sha256(wire::encode(own_.catalogue))),
          world_(command.seed,
                 {.link = {.latency = corpus_link_latency}, .everyone_knows_everyone = true}),
          blocks_(own_.catalogue.count()) {
        for (text::Block& block : blocks_) block.bytes = corpus_block_bytes;
        sim::SimNode& node =
            world_.add_node({.name = "host", .upload_bytes_per_s = command_.host_bytes_per_s});
        host_ = exchange_at(node, std::make_shared<data::OwnStore>(own_));
    }

    void run();
    // After run(): joins all tasks.
    void end();

    const std::vector<std::unique_ptr<CorpusHome>>& homes() const { return homes_; }
    double copies() const {
        return static_cast<double>(host_->stats().bytes_sent) /
               static_cast<double>(own_.catalogue.bytes());
    }
    bool is_out() const { return is_out_; }
    Duration out_after() const { return out_after_; }
    std::uint64_t gone() const { return gone_; }

  private:
    std::unique_ptr<data::PieceExchange> exchange_at(sim::SimNode& node,
                                                     std::shared_ptr<data::PieceStore> store);
    void join();
    Task<void> meet(sim::SimNode& node);
    Task<void> train(sim::SimNode& node, CorpusHome& home);
    std::vector<std::uint64_t> next_window(CorpusHome& home) const;
    static Task<void> load(CorpusHome& home, std::vector<std::uint64_t> window);
    bool every_block_is_out();

    CorpusCommand command_;
    data::OwnPieces own_;
    std::shared_ptr<const data::Catalogue> catalogue_;
    Digest name_;
    sim::World world_;
    std::vector<text::Block> blocks_;
    std::unique_ptr<data::PieceExchange> host_;
    std::vector<std::unique_ptr<CorpusHome>> homes_;
    std::uint64_t polled_at_ = 0;  // blocks before it are out
    bool is_out_ = false;
    Duration out_after_{0};
    std::uint64_t gone_ = 0;
};

std::unique_ptr<data::PieceExchange> CorpusWorld::exchange_at(
    sim::SimNode& node, std::shared_ptr<data::PieceStore> store) {
    data::ExchangeOptions options;
    options.name = name_;
    options.catalogue = catalogue_;
    options.store = std::move(store);
    options.authorizer = std::make_shared<membership::SecretAuthorizer>(Bytes(16, 1));
    options.told = [this](data::DataNews news, const PeerId&, const std::string&) {
        if (news == data::DataNews::gone) ++gone_;
    };
    return std::make_unique<data::PieceExchange>(node.runtime(), node.host(), std::move(options));
}

Task<void> CorpusWorld::meet(sim::SimNode& node) {
    for (std::size_t i = 0; i < node.index(); ++i) {
        sim::SimNode& other = world_.node(i);
        const TimePoint until = node.clock().now() + Duration(5s);
        if (other.alive()) (void)co_await node.host().connect(other.id(), until);
    }
}

void CorpusWorld::join() {
    sim::SimNode& node = world_.add_node({.name = fmt::format("home {}", homes_.size()),
                                          .upload_bytes_per_s = command_.home_bytes_per_s});
    auto home = std::make_unique<CorpusHome>(own_,
                                             catalogue_,
                                             blocks_,
                                             command_.cache_megabytes * 1'000'000,
                                             command_.seed + homes_.size());
    home->exchange = exchange_at(node, home->cache);
    homes_.push_back(std::move(home));
    world_.scope().spawn("train", train(node, *homes_.back()));
}

std::vector<std::uint64_t> CorpusWorld::next_window(CorpusHome& home) const {
    std::vector<std::uint64_t> window;
    while (true) {
        const std::uint64_t block = home.order.at(home.slot).block;
        if (!window.empty() && window.back() == block) {
            ++home.slot;
            continue;
        }
        if (window.size() == window_blocks) return window;
        window.push_back(block);
        ++home.slot;
    }
}

Task<void> CorpusWorld::load(CorpusHome& home, std::vector<std::uint64_t> window) {
    home.exchange->expect(window);
    for (const std::uint64_t block : window) {
        const auto got = co_await home.exchange->piece(block);
        if (!got || *got != corpus_block(block)) ++home.missing;
    }
}

// As the text module does: a window is trained on while the next one is made and the one behind it
// is asked for.
Task<void> CorpusWorld::train(sim::SimNode& node, CorpusHome& home) {
    home.joined = node.clock().now();
    co_await meet(node);
    std::vector<std::uint64_t> first = next_window(home);
    co_await load(home, std::move(first));
    home.first_sample = node.clock().now() - home.joined;
    const auto window_time = Duration(static_cast<std::int64_t>(
        1e9 * window_blocks * corpus_block_bytes / command_.trained_bytes_per_s));
    std::vector<std::uint64_t> next = next_window(home);
    while (true) {
        std::vector<std::uint64_t> after = next_window(home);
        const TimePoint trained_until = node.clock().now() + window_time;
        home.exchange->expect(next);
        home.exchange->expect(after);
        co_await load(home, std::move(next));
        const TimePoint ready = node.clock().now();
        if (ready > trained_until) home.waited = home.waited + (ready - trained_until);
        co_await node.clock().sleep_until(trained_until);
        home.trained = home.trained + window_time;
        ++home.windows;
        next = std::move(after);
    }
}

bool CorpusWorld::every_block_is_out() {
    while (polled_at_ < blocks_.size() && std::ranges::any_of(homes_, [this](const auto& home) {
               return home->cache->has(polled_at_);
           }))
        ++polled_at_;
    return polled_at_ == blocks_.size();
}

void CorpusWorld::run() {
    for (std::size_t i = 0; i < command_.homes; ++i)
        world_.after(static_cast<std::int64_t>(i) * join_interval, [this] { join(); });
    world_.run_for(static_cast<std::int64_t>(command_.homes) * join_interval);
    TimePoint looked = world_.now();
    is_out_ = world_.run_until(
        [&] {
            if (world_.now() < looked + Duration(1s)) return false;
            looked = world_.now();
            return every_block_is_out();
        },
        out_at_most);
    out_after_ = world_.now() - TimePoint();
    world_.node("host").kill();
    world_.run_for(std::chrono::minutes(command_.alone_minutes));
}

void CorpusWorld::end() {
    world_.run_task(world_.scope().stop());
    for (auto& home : homes_) world_.run_task(home->exchange->stop());
    world_.run_task(host_->stop());
}

}  // namespace

int run_corpus(const CorpusCommand& command) {
    CorpusWorld corpus(command);
    corpus.run();
    double first_worst = 0;
    double waited_worst = 0;
    std::uint64_t lost = 0;
    std::uint64_t windows_fewest = ~std::uint64_t{0};
    for (const auto& home : corpus.homes()) {
        first_worst = std::max(first_worst, to_seconds(home->first_sample));
        const double all = to_seconds(home->waited + home->trained);
        waited_worst = std::max(waited_worst, to_seconds(home->waited) / all);
        lost += home->missing;
        windows_fewest = std::min(windows_fewest, home->windows);
    }
    fmt::print(
        "{} MB at the host, {} homes: one copy is out after {:.0f} s, the host sent {:.3f}\n",
        command.megabytes,
        command.homes,
        to_seconds(corpus.out_after()),
        corpus.copies());
    fmt::print(
        "first sample {:.2f} s after the join at most; {:.2f} % of a home's time waiting; "
        "{} blocks gone\n",
        first_worst,
        100 * waited_worst,
        corpus.gone());
    const bool good = all_hold("corpus",
                               {at_least("one_copy_is_out", corpus.is_out() ? 1 : 0, 1),
                                at_most("copies", corpus.copies(), 1.3),
                                at_most("first_sample_s", first_worst, 5),
                                at_most("waiting", waited_worst, 0.02),
                                at_most("lost", static_cast<double>(lost), 0),
                                at_most("gone", static_cast<double>(corpus.gone()), 0)});
    if (command.json) {
        const nlohmann::ordered_json line{{"megabytes", command.megabytes},
                                          {"homes", command.homes},
                                          {"copies", corpus.copies()},
                                          {"one_copy_out_s", to_seconds(corpus.out_after())},
                                          {"first_sample_s", first_worst},
                                          {"waiting", waited_worst},
                                          {"windows_fewest", windows_fewest},
                                          {"gone", corpus.gone()},
                                          {"lost", lost},
                                          {"ok", good}};
        fmt::print("{}\n", line.dump());
    }
    corpus.end();
    return good ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
