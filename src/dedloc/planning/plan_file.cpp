#include "dedloc/planning/plan_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "dedloc/codec/codec.h"
#include "dedloc/run/ascii_toml.h"
#include "dedloc/run/run_file.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace dedloc::planning {
namespace {

constexpr double bits_per_s_max = 1e15;
constexpr double samples_per_s_max = 1e12;
constexpr std::size_t name_bytes_max = 160;  // 32 letters of four bytes, and a number
constexpr std::size_t about_bytes_max = 256;

std::string shown(std::string_view text) {
    std::string out(text.substr(0, 80));
    for (char& c : out)
        if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
    return out;
}

// One table of the file. The first error stays; after it every question gets its default.
class Section {
  public:
    Section(std::string_view file,
            const toml::table& table,
            std::string title,
            std::vector<std::string_view> known,
            std::optional<Error>& error)
        : file_(file), table_(table), title_(std::move(title)), error_(error) {
        for (const auto& [key, node] : table) {
            if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
            std::string words;
            for (const std::string_view word : known)
                words += (words.empty() ? "" : ", ") + std::string(word);
            fail(key.source().begin,
                 fmt::format("unknown key '{}'{}; known are: {}", shown(key.str()), in(), words));
        }
    }

    std::string text(std::string_view key,
                     std::size_t bytes_max,
                     bool required,
                     std::string other) {
        const toml::node* node = find(key, required);
        if (!node) return other;
        const auto* value = node->as_string();
        if (!value) return wrong(key, *node, "a text in quotes"), other;
        const auto printable = [](char c) {
            return static_cast<unsigned char>(c) >= 32 && c != 127;
        };
        if (value->get().empty() || value->get().size() > bytes_max ||
            !std::all_of(value->get().begin(), value->get().end(), printable))
            return wrong(key, *node, fmt::format("1 to {} printable letters", bytes_max)), other;
        return value->get();
    }
    std::uint64_t integer(std::string_view key,
                          std::uint64_t min,
                          std::uint64_t max,
                          bool required,
                          std::uint64_t other) {
        const toml::node* node = find(key, required);
        if (!node) return other;
        const auto* value = node->as_integer();
        if (!value || value->get() < 0 || static_cast<std::uint64_t>(value->get()) < min ||
            static_cast<std::uint64_t>(value->get()) > max)
            return wrong(key, *node, fmt::format("a whole number from {} to {}", min, max)), other;
        return static_cast<std::uint64_t>(value->get());
    }
    double number(std::string_view key, double min, double max, bool required, double other) {
        const toml::node* node = find(key, required);
        if (!node) return other;
        const auto value = node->value<double>();
        if (!node->is_number() || !value || !(*value >= min && *value <= max))
            return wrong(key, *node, fmt::format("a number from {} to {}", min, max)), other;
        return *value;
    }
    bool boolean(std::string_view key, bool other) {
        const toml::node* node = find(key, false);
        if (!node) return other;
        if (!node->is_boolean()) return wrong(key, *node, "true or false"), other;
        return node->as_boolean()->get();
    }
    double bits_per_s(std::string_view key) {
        const toml::node* node = find(key, true);
        if (!node) return 0;
        const auto* value = node->as_string();
        const auto rate = rate_from_text(value ? std::string_view(value->get()) : "");
        if (!rate) return wrong(key, *node, "a rate like \"100 Mb/s\", or \"none\""), 0;
        return *rate;
    }
    const toml::table* table(std::string_view key, bool required) {
        const toml::node* node = find(key, required);
        if (!node) return nullptr;
        if (!node->is_table()) wrong(key, *node, "a section");
        return node->as_table();
    }

    void fail_key(std::string_view key, std::string_view sentence) {
        const toml::node* node = table_.get(key);
        fail(node ? node->source().begin : table_.source().begin, sentence);
    }

  private:
    std::string in() const { return title_.empty() ? "" : fmt::format(" in [{}]", title_); }
    const toml::node* find(std::string_view key, bool required) {
        const toml::node* node = table_.get(key);
        if (!node && required)
            fail(table_.source().begin, fmt::format("'{}' is missing{}", key, in()));
        return node;
    }
    void wrong(std::string_view key, const toml::node& node, std::string_view wanted) {
        fail(node.source().begin, fmt::format("'{}'{} must be {}", key, in(), wanted));
    }
    void fail(const toml::source_position& at, std::string_view sentence) {
        // The root has no place of its own.
        if (!error_)
            error_ = make_error(ErrorKind::bad_input,
                                "{}:{}:{}: {}",
                                file_,
                                std::max<std::uint32_t>(at.line, 1),
                                std::max<std::uint32_t>(at.column, 1),
                                sentence);
    }

    std::string_view file_;
    const toml::table& table_;
    std::string title_;
    std::optional<Error>& error_;
};

class PlanReader {
  public:
    PlanReader(std::string_view file, const toml::table& root) : file_name_(file), root_(root) {}

    Result<PlanFile> read() {
        if (root_.contains("task") && !root_.contains("vector"))
            return make_error(ErrorKind::bad_input,
                              "{0}: this is a run file, and a plan is of a network (docs/plan.md); "
                              "`dedloc check {0}` predicts this run's rounds, and `dedloc watch "
                              "STRING --print-plan` writes the network of a run",
                              file_name_);
        Section top = section(root_, "", {"name", "about", "vector", "training", "peers", "links"});
        plan_.name = top.text("name", name_bytes_max, false, std::string(file_name_.substr(0, 64)));
        plan_.about = top.text("about", about_bytes_max, false, "");
        if (const toml::table* table = top.table("vector", true)) read_vector(*table);
        if (const toml::table* table = top.table("training", false)) read_training(*table);
        if (const toml::table* table = top.table("peers", true))
            for_each_section(*table, "peers", [&](const auto& name, const toml::table& one) {
                read_peers(name, one);
            });
        set_average_costs();
        if (!error_ && plan_.question.peers.empty()) top.fail_key("peers", "there are no peers");
        if (const toml::table* table = top.table("links", false))
            for_each_section(*table, "links", [&](const auto& name, const toml::table& one) {
                read_links(name, one);
            });
        if (error_) return *std::move(error_);
        return std::move(plan_);
    }

  private:
    struct Range {
        std::size_t first = 0;
        std::size_t count = 0;
    };

    Section section(const toml::table& table,
                    std::string title,
                    std::vector<std::string_view> known) {
        return Section(file_name_, table, std::move(title), std::move(known), error_);
    }

    // In the order of the file; TOML's tables are sorted by name.
    template <typename Read>
    void for_each_section(const toml::table& table, std::string_view kind, Read read) {
        std::vector<std::pair<std::string, const toml::table*>> sections;
        for (const auto& [key, node] : table) {
            const std::string name(key.str());
            const bool named = !name.empty() && name.size() <= name_bytes_max &&
                               std::none_of(name.begin(), name.end(), [](char c) {
                                   return static_cast<unsigned char>(c) < 32 || c == 127;
                               });
            if (!node.is_table() || !named) {
                if (!error_)
                    error_ =
                        make_error(ErrorKind::bad_input,
                                   "{}:{}:{}: here belong sections like [{}.NAME], with names of "
                                   "1 to {} printable letters",
                                   file_name_,
                                   key.source().begin.line,
                                   key.source().begin.column,
                                   kind,
                                   name_bytes_max);
                return;
            }
            sections.emplace_back(name, node.as_table());
        }
        std::sort(sections.begin(), sections.end(), [](const auto& a, const auto& b) {
            const auto& left = a.second->source().begin;
            const auto& right = b.second->source().begin;
            return left.line != right.line ? left.line < right.line : left.column < right.column;
        });
        for (const auto& [name, one] : sections) read(name, *one);
    }

    void read_vector(const toml::table& table) {
        Section vector =
            section(table, "vector", {"elements", "codec", "part_elements_min", "gather_max"});
        plan_.question.elements_count =
            vector.integer("elements", 1, std::uint64_t{1} << 50, true, 1);
        plan_.codec = vector.text("codec", name_bytes_max, false, "fp16");
        plan_.question.part_elements_min =
            vector.integer("part_elements_min", 0, std::uint64_t{1} << 50, false, 0);
        plan_.gather_max = vector.integer("gather_max", 1, 256, false, codec::gather_max_usual);
        const auto codec = codec::codec_from_string(plan_.codec);
        if (!codec) return vector.fail_key("codec", codec.error().message());
        plan_.question.element_bytes = codec::bytes_per_element(*codec);
    }

    void read_training(const toml::table& table) {
        Section training =
            section(table, "training", {"batch", "delayed", "fragments", "local_steps", "robust"});
        plan_.question.batch_samples = training.number("batch", 1, 1e15, true, 1);
        plan_.question.delayed = training.boolean("delayed", false);
        plan_.local_steps = training.integer("local_steps", 1, 1'000'000, false, 1);
        plan_.fragments = training.integer("fragments", 1, run::fragments_max, false, 1);
        plan_.question.elements_count =
            std::max<std::uint64_t>(1, plan_.question.elements_count / plan_.fragments);
        plan_.robust = training.boolean("robust", false);
        // A run file with both has `check = 0`: nobody computes its contributions again.
        plan_.question.delayed_refused = plan_.robust && !plan_.question.delayed;
        const auto codec = codec::codec_from_string(plan_.codec);
        if (plan_.robust && codec && codec::is_sparse(*codec))
            training.fail_key("robust",
                              fmt::format("'robust' and the codec \"{}\" exclude each other, as "
                                          "in run files: robust runs take dense rounds only",
                                          plan_.codec));
    }

    void set_average_costs() {
        const auto codec = codec::codec_from_string(plan_.codec);
        if (!codec) return;
        std::vector<planner::PeerRates> rates;
        for (const planner::PlanPeer& peer : plan_.question.peers) rates.push_back(peer.rates);
        expect_codec(rates, *codec, plan_.gather_max);
        for (std::size_t i = 0; i < rates.size(); ++i) plan_.question.peers[i].rates = rates[i];
    }

    double elements_per_s(double bits_per_s) const {
        return bits_per_s / 8 / plan_.question.element_bytes;
    }

    void read_peers(const std::string& name, const toml::table& table) {
        Section peers =
            section(table,
                    "peers." + shown(name),
                    {"count", "up", "down", "role", "receives", "dialable", "samples_per_s"});
        const std::size_t first = plan_.question.peers.size();
        const auto count =
            static_cast<std::size_t>(peers.integer("count", 1, plan_peers_max, false, 1));
        const std::string role = peers.text("role", name_bytes_max, false, "trainer");
        const bool trains = role == "trainer";
        if (!trains && role != "aggregator" && role != "receiver")
            peers.fail_key("role",
                           "'role' must be \"trainer\" (computes and receives), \"aggregator\" "
                           "(only adds up) or \"receiver\" (only needs the average)");
        planner::PlanPeer peer;
        peer.rates.upload_per_s = elements_per_s(peers.bits_per_s("up"));
        peer.rates.download_per_s = elements_per_s(peers.bits_per_s("down"));
        peer.rates.contributes = trains;
        peer.rates.receives = peers.boolean("receives", role != "aggregator");
        peer.rates.owns_allowed = peers.boolean("dialable", true);
        const bool speed_needed = trains && plan_.question.batch_samples > 0;
        peer.samples_per_s = peers.number("samples_per_s", 0, samples_per_s_max, speed_needed, 0);
        if (count > plan_peers_max - first)
            return peers.fail_key("count",
                                  fmt::format("more than {} peers in all", plan_peers_max));
        if (error_) return;
        groups_[name] = {first, count};
        for (std::size_t i = 0; i < count; ++i) {
            peer.name = count == 1 ? name : fmt::format("{}-{}", name, i + 1);
            const bool is_new = peers_.emplace(peer.name, Range{first + i, 1}).second;
            if (!is_new)
                return peers.fail_key("count", fmt::format("two peers are called '{}'", peer.name));
            plan_.question.peers.push_back(peer);
            plan_.groups.push_back(name);
        }
    }

    std::optional<Range> range_of(Section& section, std::string_view key) {
        const std::string name = section.text(key, name_bytes_max + 8, true, "");
        if (error_) return std::nullopt;
        for (const auto* known : {&groups_, &peers_})
            if (const auto found = known->find(name); found != known->end()) return found->second;
        section.fail_key(key, fmt::format("there are no peers '{}'", shown(name)));
        return std::nullopt;
    }

    void read_links(const std::string& name, const toml::table& table) {
        Section links = section(table, "links." + shown(name), {"from", "to", "rate", "both"});
        const auto from = range_of(links, "from");
        const auto to = range_of(links, "to");
        const double rate = elements_per_s(links.bits_per_s("rate"));
        const bool both = links.boolean("both", false);
        if (error_ || !from || !to) return;
        // Among the peers of one range both directions come by themselves.
        const bool back = both && (from->first != to->first || from->count != to->count);
        const std::size_t ways = back ? 2 : 1;
        // Not multiplied before it is known to be small.
        if (from->count > planner::links_max / ways / to->count ||
            plan_.question.links.size() + ways * from->count * to->count > planner::links_max)
            return links.fail_key(
                "from", fmt::format("more than {} limits of links in all", planner::links_max));
        const std::size_t before = plan_.question.links.size();
        for (std::size_t i = from->first; i < from->first + from->count; ++i) {
            for (std::size_t j = to->first; j < to->first + to->count; ++j) {
                if (i == j) continue;
                const auto a = static_cast<std::uint32_t>(i);
                const auto b = static_cast<std::uint32_t>(j);
                plan_.question.links.push_back({a, b, rate});
                if (back) plan_.question.links.push_back({b, a, rate});
            }
        }
        if (plan_.question.links.size() == before)
            links.fail_key("to", "a link needs two different peers");
    }

    std::string_view file_name_;
    const toml::table& root_;
    std::optional<Error> error_;
    PlanFile plan_;
    std::map<std::string, Range> groups_;
    std::map<std::string, Range> peers_;
};

}  // namespace

Result<double> rate_from_text(std::string_view text) {
    if (text == "none") return 0.0;
    struct Unit {
        std::string_view name;
        double bits_per_s;
    };
    static constexpr Unit units[] = {
        {"b/s", 1},
        {"kb/s", 1e3},
        {"Mb/s", 1e6},
        {"Gb/s", 1e9},
        {"Tb/s", 1e12},
        {"B/s", 8},
        {"kB/s", 8e3},
        {"MB/s", 8e6},
        {"GB/s", 8e9},
    };
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && std::isfinite(value) && value >= 0) {
        std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
        rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
        for (const Unit& unit : units)
            if (unit.name == rest && value * unit.bits_per_s <= bits_per_s_max)
                return value * unit.bits_per_s;
    }
    return make_error(ErrorKind::bad_input, "'{}' is no rate like \"100 Mb/s\"", shown(text));
}

Result<PlanFile> parse_plan_file(std::string_view text, std::string_view file_name) {
    if (text.size() > plan_file_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "{}: {} bytes are too many for a plan file; at most {} are read",
                          file_name,
                          text.size(),
                          plan_file_bytes_max);
    // Some editors begin a file with a byte order mark.
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    DEDLOC_TRY(const std::string safe, run::ascii_toml(text, file_name));
    const toml::parse_result parsed = toml::parse(safe, std::string(file_name));
    if (!parsed) {
        const auto& at = parsed.error().source().begin;
        return make_error(ErrorKind::bad_input,
                          "{}:{}:{}: {}",
                          file_name,
                          at.line,
                          at.column,
                          parsed.error().description());
    }
    return PlanReader(file_name, parsed.table()).read();
}

void expect_codec(std::vector<planner::PeerRates>& peers,
                  codec::CodecId codec,
                  std::uint64_t gather_max) {
    const std::size_t contributors = planner::contributors_in(peers);
    planner::expect_averages(peers,
                             codec::average_cost(codec, contributors, gather_max),
                             codec::adds_sums(codec, contributors, gather_max));
}

}  // namespace dedloc::planning
