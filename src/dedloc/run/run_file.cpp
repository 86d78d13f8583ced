// One list of fields (visit_fields) says keys, bounds and order; reading, writing, comparing and
// the search for misspelt keys all walk that list. Each section's part of it is in sections/, or is
// its task's (task_section.h).

#include "dedloc/run/run_file.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/printable.h"
#include "dedloc/run/ascii_toml.h"
#include "dedloc/run/field_words.h"
#include "dedloc/run/first_keys.h"
#include "dedloc/run/run_checks.h"
#include "dedloc/run/sections/access.h"
#include "dedloc/run/sections/averaging.h"
#include "dedloc/run/sections/local.h"
#include "dedloc/run/sections/optimizer.h"
#include "dedloc/run/sections/robust.h"
#include "dedloc/run/toml_reader.h"
#include "dedloc/security/hash.h"

namespace dedloc::run {
namespace {

// Versions are written, so that they are hashed, and may be asked for; they cannot be chosen.
// `gathered_numerics`: of rounds with sparse codecs; 2 has longer parts, and sums by owners.
struct Versions {
    std::uint64_t format = run_format;
    std::uint64_t numerics = numerics_version;
    std::uint64_t optimizer_numerics = optim::numerics_version;
    std::uint64_t robust_numerics = robust_numerics_version;
    std::uint64_t gathered_numerics = 2;
};

template <typename Visitor>
void visit_versions(Visitor& visit, const RunFile& run) {
    const Versions versions;
    visit("format", versions.format);
    visit("numerics", versions.numerics);
    visit("optimizer_numerics", versions.optimizer_numerics);
    if (run.robust) visit("robust_numerics", versions.robust_numerics);
    if (run.averaging.is_sparse()) visit("gathered_numerics", versions.gathered_numerics);
}

// A rule for a value whose own rule nobody knows: peers sent it in its canonical form.
SectionRule any_rule(const SectionValue& value) {
    if (std::holds_alternative<bool>(value)) return std::monostate();
    if (std::holds_alternative<std::uint64_t>(value)) return Integers{};
    if (std::holds_alternative<double>(value))
        return Numbers{std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()};
    return Text{.bytes_max = task_text_bytes_max};
}

// `sections` are complete: they have the fields of the schema, if there is one, in its order.
template <typename Visitor, typename Sections>
void visit_sections(Visitor& visit, Sections& sections, const std::vector<SectionSchema>* schema) {
    for (std::size_t s = 0; s < sections.size(); ++s)
        for (std::size_t f = 0; f < sections[s].fields.size(); ++f) {
            auto& field = sections[s].fields[f];
            const SectionRule rule = schema ? (*schema)[s].fields[f].rule : any_rule(field.value);
            visit_section_value(
                visit, fmt::format("{}.{}", sections[s].name, field.key), field.value, rule);
        }
}

// Which fields there are depends on task.kind, on whether there are sections [local] and
// [robust], on [access], and on whether codecs are adaptive; these are therefore looked at before
// them.
template <typename Visitor, typename Run, typename Sections>
void visit_fields(Visitor& visit, Run& run, Sections& sections) {
    visit("name", run.name, Text{.bytes_max = 64, .required = true});
    visit("protocol", run.protocol, Choice{{"native"}});
    visit("task.kind", run.task.kind, Text{});
    visit("task.model", run.task.model, Text{});
    visit("task.data", run.task.data, Text{.bytes_max = 1024});
    visit("task.seed", run.task.seed, Integers{});
    visit("task.precision", run.task.precision, Choice{{"fp32", "bf16", "fp16"}});
    visit_sections(visit, sections, sections_of(run.task.kind));
    visit("batch.target", run.batch.target, Integers{1, samples_per_step_max});
    visit("batch.micro", run.batch.micro, IntegersOrAuto{1, samples_per_step_max});
    visit_optimizer(visit, run.optimizer);
    if (run.local) visit_local(visit, *run.local);
    visit_averaging(visit, run.averaging);
    if (run.robust) visit_robust(visit, *run.robust);
    if (run.access) visit_access(visit, *run.access);
    visit("stop.steps", run.stop.steps, Integers{0, steps_max});
    visit("stop.samples", run.stop.samples, Integers{});
    visit("stop.accuracy", run.stop.accuracy, Numbers{0, 1});
    visit("checkpoint.every", run.checkpoint_every, Integers{0, steps_max});
    visit("evaluate.every", run.evaluate_every, Integers{0, steps_max});
}

// `all`: also those that are not written.
std::vector<Word> all_words_of(const RunFile& run, bool all = true) {
    const std::vector<Section> sections = complete_sections(run.task);
    WordCollector collector;
    collector.all = all;
    visit_versions(collector, run);
    visit_fields(collector, run, sections);
    return std::move(collector.words);
}

// With the same sections, and otherwise what is so where nobody says another thing.
RunFile defaults_beside(const RunFile& run) {
    RunFile defaults;
    defaults.task.kind = run.task.kind;
    if (!run.averaging.codec) defaults.averaging.codec.reset();
    if (run.local) defaults.local.emplace();
    if (run.robust) defaults.robust.emplace();
    if (run.access) defaults.access.emplace();
    return defaults;
}

// The words of the canonical form: later keys only where they say something (first_keys.h).
std::vector<Word> words_of(const RunFile& run) {
    std::vector<Word> words = all_words_of(run, false);
    const auto is_later = [](const Word& word) { return !is_first_key(word.key); };
    if (std::ranges::none_of(words, is_later)) return words;
    const std::vector<Word> defaults = all_words_of(defaults_beside(run));
    const auto is_default = [&](const Word& word) {
        return std::ranges::any_of(defaults, [&](const Word& other) {
            return other.key == word.key && other.text == word.text;
        });
    };
    std::erase_if(words, [&](const Word& word) { return is_later(word) && is_default(word); });
    return words;
}

bool stands_before(const toml::node& a, const toml::node& b) {
    const auto& left = a.source().begin;
    const auto& right = b.source().begin;
    return left.line != right.line ? left.line < right.line : left.column < right.column;
}

struct Entry {
    std::string key;
    const toml::node* node;
};

// Entries of a table as they follow each other in the file, whatever their names.
std::vector<Entry> in_file_order(const toml::table& table) {
    std::vector<Entry> entries;
    for (const auto& [key, node] : table) entries.push_back({std::string(key.str()), &node});
    std::ranges::sort(
        entries, [](const Entry& a, const Entry& b) { return stands_before(*a.node, *b.node); });
    return entries;
}

std::optional<SectionValue> value_of(const toml::node& node) {
    if (const auto* flag = node.as_boolean()) return flag->get();
    if (const auto* number = node.as_floating_point()) return number->get();
    if (const auto* text = node.as_string()) return std::string(text->get());
    const auto* integer = node.as_integer();
    if (!integer || integer->get() < 0) return std::nullopt;
    return static_cast<std::uint64_t>(integer->get());
}

// The sections of a task that nobody registered, of a file in canonical form. What does not fit
// stays an unknown key.
std::vector<Section> unregistered_sections(const toml::table& root, const RunFile& run) {
    std::vector<Section> sections;
    const std::vector<Word> ours = all_words_of(run);
    const auto is_ours = [&ours](std::string_view name) {
        return std::ranges::any_of(ours, [name](const Word& word) {
            return word.key == name || word.key.starts_with(std::string(name) + ".");
        });
    };
    for (const auto& [name, node] : in_file_order(root)) {
        const toml::table* table = node->as_table();
        if (!table || is_ours(name) || sections.size() == task_sections_max) continue;
        Section section{name, {}};
        for (const auto& [key, value] : in_file_order(*table))
            if (auto known = value_of(*value); known && section.fields.size() < task_keys_max)
                section.fields.push_back({key, *std::move(known)});
        sections.push_back(std::move(section));
    }
    return sections;
}

// By kind of task. A function's own, so that registrations of other sources find it made.
std::map<std::string, RunCheck>& run_checks() {
    static std::map<std::string, RunCheck> checks;
    return checks;
}

// Fragments are ranges of elements, which tensors may straddle.
void check_fragments(const RunFile& run, TomlReader& reader) {
    constexpr std::string_view key = "local.fragments";
    if (run.local->fragments == 1) return;
    if (run.averaging.is_sparse())
        reader.fail_key(key,
                        fmt::format("'local.fragments' and the codec \"{}\" exclude each other: "
                                    "such a round moves a hundredth already; take \"fp16\" or "
                                    "\"blockwise8\"",
                                    codec::to_string(*run.averaging.codec)));
    const optim::OptimizerConfig& outer = run.optimizer;
    const bool by_element = outer.kind == optim::OptimizerKind::adamw ||
                            (outer.kind == optim::OptimizerKind::sgd && !outer.larc);
    if (!by_element)
        reader.fail_key(
            key,
            fmt::format(
                "'local.fragments' needs an outer step that moves each element "
                "by itself, and {} needs whole tensors; write [optimizer] kind "
                "= \"sgd\"",
                outer.kind == optim::OptimizerKind::sgd ? "larc" : optim::to_string(outer.kind)));
}

void check_local(const RunFile& run, TomlReader& reader) {
    const LocalConfig& local = *run.local;
    if (local.batch == 0)
        reader.fail_key("local",
                        "[local] needs 'batch', the samples of one inner step of one peer; write: "
                        "batch = 64");
    if (run.batch.micro != micro_auto && local.batch % run.batch.micro != 0)
        reader.fail_key("local.batch",
                        fmt::format("'local.batch' ({}) must be a multiple of 'batch.micro' ({})",
                                    local.batch,
                                    run.batch.micro));
    if (local.batch > run.batch.target)
        reader.fail_key("local.batch",
                        fmt::format("'local.batch' ({}) must not exceed 'batch.target' ({}), which "
                                    "is what all peers together compute between two averages",
                                    local.batch,
                                    run.batch.target));
    if (const Ok schedule = optim::check(local.optimizer.schedule); !schedule)
        reader.fail_key("local.schedule.total_steps", schedule.error().message());
    if (const Ok optimizer = optim::check(local.optimizer); !optimizer)
        reader.fail_key("local.optimizer.kind", optimizer.error().message());
    if (local.optimizer.moments_8bit)
        reader.fail_key("local.optimizer.moments_8bit",
                        "local updates keep their moments in fp32: only [optimizer] has 8 bits");
    check_fragments(run, reader);
}

void check_sparse(const RunFile& run, TomlReader& reader) {
    const std::string_view name = codec::to_string(*run.averaging.codec);
    const std::size_t chunk = codec::block_elements(*run.averaging.codec);
    if (run.averaging.part_elements_max < chunk)
        reader.fail_key("averaging.part_elements_max",
                        fmt::format("the codec \"{}\" encodes {} elements at a time: "
                                    "'averaging.part_elements_max' must be at least as many",
                                    name,
                                    chunk));
    if (run.robust)
        reader.fail_key("averaging.codec",
                        fmt::format("[robust] and the codec \"{}\" exclude each other: what a peer "
                                    "sends of its gradient also depends on what it has not sent "
                                    "yet, and nobody can compute that again; take \"blockwise8\"",
                                    name));
}

// Others can compute inner steps again, and find what their author did but for rounding.
void check_local_again(const RunFile& run, TomlReader& reader) {
    if (run.batch.micro == micro_auto)
        reader.fail_key("batch.micro",
                        "[robust] with [local] needs a number for 'batch.micro': inner steps end "
                        "where micro-batches do, and with \"auto\" every peer cuts them otherwise, "
                        "so that nobody could compute another's again; write, say, micro = 32");
    if (run.local->optimizer.kind == optim::OptimizerKind::muon)
        reader.fail_key("local.optimizer.kind",
                        "[robust] and inner steps by muon exclude each other: it makes directions "
                        "that are nothing but rounding as long as all others, so that honest "
                        "machines differ like liars; write kind = \"adamw\"");
    if (run.task.precision != "fp32" && run.robust->tolerance <= 0)
        reader.fail_key("task.precision",
                        fmt::format("[robust] with [local] and {} needs a 'robust.tolerance' of "
                                    "your own: nobody has measured how far honest machines differ "
                                    "after inner steps in it; or write precision = \"fp32\"",
                                    run.task.precision));
}

// A run that never gathers would say nothing with it.
void check_gather_max(const RunFile& run, TomlReader& reader) {
    const AveragingConfig& averaging = run.averaging;
    if (averaging.gather_max == codec::gather_max_usual ||
        (averaging.codec && codec::sum_codec(*averaging.codec)))
        return;
    reader.fail_key("averaging.gather_max",
                    "'averaging.gather_max' is for the codec \"sparse\": contributions in other "
                    "codecs are always added, or (\"low_rank\") always gathered");
}

void check_robust(const RunFile& run, TomlReader& reader) {
    if (run.fragments() > 1)
        reader.fail_key("local.fragments",
                        "'local.fragments' and [robust] exclude each other: where a fragment's own "
                        "steps began no round says, so that nobody could compute them again; leave "
                        "'fragments' away");
    if (run.local && run.is_checked()) check_local_again(run, reader);
    if (run.averaging.delayed && run.is_checked())
        reader.fail_key("averaging.delayed",
                        "'averaging.delayed' and checks of gradients exclude each other: gradients "
                        "are computed at a state that rounds do not name; write 'check = 0' into "
                        "[robust], or leave 'delayed' away");
    if (run.robust->check <= 0 && run.robust->probation > 0)
        reader.fail_key("robust.probation",
                        "'robust.probation' needs 'robust.check': a newcomer whose contributions "
                        "nobody checks would never weigh anything; write 'probation = 0'");
}

void check_access(const RunFile& run, TomlReader& reader) {
    if (!PeerId::from_text(run.access->authority))
        reader.fail_key("access.authority",
                        "'access.authority' names the key that lets people in, such as 12D3KooW…; "
                        "leave [access] out, and `dedloc host --admit list` writes one");
}

void check_together(const RunFile& run, TomlReader& reader) {
    if (run.batch.micro > run.batch.target)
        reader.fail_key("batch.micro",
                        fmt::format("'batch.micro' ({}) must not exceed 'batch.target' ({})",
                                    run.batch.micro,
                                    run.batch.target));
    if (const Ok schedule = optim::check(run.optimizer.schedule); !schedule)
        reader.fail_key("schedule.total_steps", schedule.error().message());
    if (const Ok optimizer = optim::check(run.optimizer); !optimizer)
        reader.fail_key("optimizer.kind", optimizer.error().message());
    if (run.averaging.round_deadline_min > run.averaging.round_deadline_max)
        reader.fail_key("averaging.round_deadline_min",
                        fmt::format("'averaging.round_deadline_min' ({}) must not exceed "
                                    "'averaging.round_deadline_max' ({})",
                                    to_word(run.averaging.round_deadline_min),
                                    to_word(run.averaging.round_deadline_max)));
    if (run.local) check_local(run, reader);
    if (run.averaging.is_sparse()) check_sparse(run, reader);
    check_gather_max(run, reader);
    if (run.robust) check_robust(run, reader);
    if (run.access) check_access(run, reader);
    const std::vector<SectionSchema>* schema = sections_of(run.task.kind);
    if (!schema) return;
    Ok task = check_task(run.task);
    const auto check = run_checks().find(run.task.kind);
    if (task && check != run_checks().end()) task = check->second(run);
    const std::string_view at = schema->empty() ? "task.model" : (*schema)[0].name;
    if (!task) reader.fail_key(at, task.error().message());
}

// A fingerprint with a sketch has hundreds of letters; people compare its beginning.
std::string shortened(const std::string& text) {
    constexpr std::size_t letters_max = 80;
    return text.size() > letters_max ? base::printable(text, letters_max) + "…" : text;
}

std::string_view section_or_none(bool there) { return there ? "a section" : "none"; }

}  // namespace

double recheck_tolerance(const RunFile& run) {
    if (run.robust && run.robust->tolerance > 0) return run.robust->tolerance;
    // Ten times what unlike machines differ by (dedloc-lab unlike).
    if (run.local) return 5e-2;
    return run.task.precision == "fp32" ? 2e-3 : 2e-2;
}

void register_run_check(std::string kind, RunCheck check) {
    run_checks().emplace(std::move(kind), std::move(check));
}

Result<RunFile> parse_run_file(std::string_view text, std::string_view file_name) {
    if (text.size() > run_file_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "{}: {} bytes are too many for a run file; at most {} are read",
                          file_name,
                          text.size(),
                          run_file_bytes_max);
    DEDLOC_TRY(const std::string safe, ascii_toml(text, file_name));
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
    const toml::table& root = parsed.table();
    RunFile run;
    run.task = default_task();
    run.task.kind = root["task"]["kind"].value_or(run.task.kind);
    if (root.contains("local")) run.local.emplace();
    if (root.contains("robust")) run.robust.emplace();
    if (root.contains("access")) run.access.emplace();
    const auto named_codec = root["averaging"]["codec"].value_or(std::string_view());
    if (named_codec == adaptive) run.averaging.codec.reset();
    if (const auto named = codec::codec_from_string(named_codec)) run.averaging.codec = *named;
    TomlReader reader(root, file_name);
    visit_versions(reader, run);
    // First of all: in a file of another version a key that nobody knows here is no misspelt one.
    if (reader.error) return *std::move(reader.error);
    // Only peers say their format.
    if (!sections_of(run.task.kind) && root.contains("format"))
        run.task.sections = unregistered_sections(root, run);
    run.task.sections = complete_sections(run.task);
    const std::vector<Word> known = all_words_of(run);
    if (auto unknown = UnknownKey(file_name, known).find_in(root)) return *std::move(unknown);
    visit_fields(reader, run, run.task.sections);
    if (!reader.error) check_together(run, reader);
    if (reader.error) return *std::move(reader.error);
    return run;
}

std::string to_toml(const RunFile& run) {
    const std::vector<Word> words = words_of(run);
    std::string text;
    std::string_view section;
    for (const Word& word : words) {
        const std::string_view here = section_of(word.key);
        if (here != section) {
            text += fmt::format("\n[{}]\n", here);
            section = here;
        }
        text += fmt::format("{} = {}\n", last_part(word.key), word.text);
    }
    return text;
}

Digest run_hash(const RunFile& run) { return security::sha256(as_bytes(to_toml(run))); }

std::vector<std::string> differences(const RunFile& here, const RunFile& there) {
    const std::vector<Word> ours = all_words_of(here);
    const std::vector<Word> theirs = all_words_of(there);
    std::vector<std::string> sentences;
    if (here.local.has_value() != there.local.has_value())
        sentences.push_back(fmt::format("local: {} here, {} there",
                                        section_or_none(here.local.has_value()),
                                        section_or_none(there.local.has_value())));
    if (here.robust.has_value() != there.robust.has_value())
        sentences.push_back(fmt::format("robust: {} here, {} there",
                                        section_or_none(here.robust.has_value()),
                                        section_or_none(there.robust.has_value())));
    if (here.access.has_value() != there.access.has_value())
        sentences.push_back(fmt::format("access: {} here, {} there",
                                        section_or_none(here.access.has_value()),
                                        section_or_none(there.access.has_value())));
    for (const Word& our : ours) {
        const auto their = std::find_if(
            theirs.begin(), theirs.end(), [&](const Word& word) { return word.key == our.key; });
        // Fields that only one of them has follow from task.kind, from [local] or from the codec.
        if (their != theirs.end() && their->text != our.text)
            sentences.push_back(fmt::format(
                "{}: {} here, {} there", our.key, shortened(our.text), shortened(their->text)));
    }
    return sentences;
}

}  // namespace dedloc::run
