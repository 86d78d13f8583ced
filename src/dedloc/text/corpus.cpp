#include "dedloc/text/corpus.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dedloc/base/composed.h"
#include "dedloc/base/log.h"
#include "dedloc/folders/walk.h"
#include "dedloc/security/hash.h"
#include "dedloc/text/block_cutter.h"
#include "dedloc/text/cache.h"
#include "dedloc/text/corpus_split.h"
#include "dedloc/text/king_james.h"
#include "dedloc/text/utf8.h"

namespace dedloc::text {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t byte_order_mark_bytes = 3;
constexpr std::size_t read_bytes = 1u << 20;
constexpr std::uint64_t bad_records_logged_max = 10;

std::string_view wanted(SourceFormat format) {
    return format == SourceFormat::text ? ".txt" : ".jsonl or .ndjson";
}

Result<std::vector<std::string>> files_below(const std::string& root, SourceFormat format) {
    const folders::ListOptions options{
        .wanted =
            [format](std::string_view name) {
                const std::string extension = folders::lower_extension(name);
                return format == SourceFormat::text
                           ? extension == ".txt"
                           : extension == ".jsonl" || extension == ".ndjson";
            },
        .files_max = files_max,
        .logged_as = "text",
        .link_advice = "name it as a source of its own"};
    DEDLOC_TRY(auto files, folders::list_files(root, options));
    if (files.empty())
        return make_error(ErrorKind::not_found, "no file {} in {}", wanted(format), root);
    return files;
}

Result<FileStamp> stamp_of(const std::string& path) {
    std::error_code error;
    FileStamp stamp{.bytes = fs::file_size(path, error), .changed = {}};
    if (!error) stamp.changed = fs::last_write_time(path, error);
    if (error)
        return make_error(ErrorKind::local_fault, "cannot read {}: {}", path, error.message());
    return stamp;
}

// Reads one file front to back into blocks, the hash of all and its own.
Result<std::uint64_t> scan_file(const std::string& path,
                                std::uint32_t file_index,
                                const SourceConfig& config,
                                std::uint32_t block_bytes,
                                security::Sha256& hash,
                                security::Sha256& own_hash,
                                std::vector<Block>& blocks) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
        return make_error(ErrorKind::local_fault, "cannot read {}: {}", path, std::strerror(errno));
    BlockCutter cutter(config, block_bytes, path);
    std::string piece(read_bytes, '\0');
    while (file) {
        file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
        const std::string_view got(piece.data(), static_cast<std::size_t>(file.gcount()));
        hash.update(got);
        own_hash.update(got);
        DEDLOC_TRY_VOID(cutter.add(got, file_index, blocks));
    }
    if (file.bad())
        return make_error(
            ErrorKind::local_fault, "reading {} failed: {}", path, std::strerror(errno));
    DEDLOC_TRY_VOID(cutter.finish(file_index, blocks));
    return cutter.bytes();
}

void update_number(security::Sha256& hash, std::uint64_t number) {
    Bytes bytes;
    base::put_u64_be(bytes, number);
    hash.update(bytes);
}

// A record, or a stretch of running text, into documents.
void append_documents(std::string_view text,
                      const SourceConfig& config,
                      std::vector<Document>& out) {
    std::vector<std::string_view> pieces;
    if (config.documents == DocumentUnit::file) pieces = {text};
    if (config.documents == DocumentUnit::paragraph) pieces = paragraphs_of(text);
    if (config.documents == DocumentUnit::line) pieces = lines_of(text);
    for (const std::string_view piece : pieces) {
        Document document = sentences_of(piece, config.sentences);
        if (!document.empty()) out.push_back(std::move(document));
    }
}

}  // namespace

void split_blocks(std::vector<Block>&& all,
                  double fraction,
                  std::vector<Block>& train,
                  std::vector<Block>& held_out) {
    const auto before = [&](std::size_t i) {
        return static_cast<std::uint64_t>(static_cast<double>(i) * fraction);
    };
    for (std::size_t i = 0; i < all.size(); ++i)
        (before(i + 1) > before(i) ? held_out : train).push_back(all[i]);
    if (held_out.empty() && fraction > 0 && train.size() > 1) {
        held_out.push_back(train.back());
        train.pop_back();
    }
}

Result<Corpus::Source> Corpus::find_files(const SourceConfig& config,
                                          const CorpusOptions& options) {
    Source source{
        .config = config, .root = {}, .files = {}, .stamps = {}, .train = {}, .held_out = {}};
    if (config.format == SourceFormat::kjv) {
        std::string cache = options.cache_directory;
        if (cache.empty()) {
            DEDLOC_TRY(cache, default_cache_directory());
        }
        DEDLOC_TRY(const fs::path path, king_james_bible(cache));
        source.root = path.parent_path().string();
        source.files = {path.filename().string()};
        return source;
    }
    const fs::path path = fs::path(options.data_directory) / config.path;
    std::error_code error;
    const auto status = fs::status(path, error);
    if (fs::is_regular_file(status)) {
        source.root = path.parent_path().string();
        source.files = {path.filename().string()};
        return source;
    }
    if (!fs::is_directory(status))
        return make_error(ErrorKind::not_found,
                          "there is no file or folder {}; relative paths of a run's data are "
                          "below the folder given with --data",
                          path.string());
    source.root = path.string();
    DEDLOC_TRY(source.files, files_below(source.root, config.format));
    return source;
}

Result<std::shared_ptr<const Corpus>> Corpus::open(const std::vector<SourceConfig>& sources,
                                                   const CorpusOptions& options) {
    if (sources.empty()) return make_error(ErrorKind::bad_input, "no source of text is named");
    if (options.block_bytes < block_bytes_min || options.block_bytes > block_bytes_max ||
        !(options.held_out >= 0 && options.held_out <= 0.5))
        return make_error(ErrorKind::bad_input,
                          "blocks of text have {} to {} bytes, and at most half of them are held "
                          "out; not {} bytes and {}",
                          block_bytes_min,
                          block_bytes_max,
                          options.block_bytes,
                          options.held_out);
    std::shared_ptr<Corpus> corpus(new Corpus);
    corpus->options_ = options;
    security::Sha256 hash;
    hash.update("dedloc/corpus/1");
    std::uint32_t number = 0;
    for (const SourceConfig& config : sources) {
        DEDLOC_TRY(Source source, find_files(config, options));
        std::vector<Block> blocks;
        for (std::uint32_t i = 0; i < source.files.size(); ++i) {
            const std::string path = (fs::path(source.root) / source.files[i]).string();
            DEDLOC_TRY(const FileStamp stamp, stamp_of(path));
            source.stamps.push_back(stamp);
            security::Sha256 own_hash;
            DEDLOC_TRY(const std::uint64_t bytes,
                       scan_file(path, i, config, options.block_bytes, hash, own_hash, blocks));
            corpus->sketch_.add(base::composed(name_of(source, i)), own_hash.finish());
            update_number(hash, bytes);
            source.bytes += bytes;
        }
        if (blocks.empty())
            return make_error(
                ErrorKind::bad_input,
                "{} has no text: {} and nothing but white space",
                source.files.size() == 1 ? source.root + "/" + source.files[0] : source.root,
                source.files.size() == 1 ? "one file"
                                         : fmt::format("{} files", source.files.size()));
        if (config.format == SourceFormat::json_lines)
            DEDLOC_TRY_VOID(check_records(source, blocks));
        update_number(hash, source.files.size());
        for (Block& block : blocks) block.number = number++;
        split_blocks(std::move(blocks), options.held_out, source.train, source.held_out);
        corpus->bytes_ += source.bytes;
        corpus->sources_.push_back(std::move(source));
    }
    corpus->fingerprint_ = hash.finish();
    return std::shared_ptr<const Corpus>(std::move(corpus));
}

const std::vector<Block>& Corpus::blocks(std::size_t source, Split split) const {
    const Source& of = sources_[source];
    return split == Split::train ? of.train : of.held_out;
}

// The same on all machines: the run file names the source.
std::string Corpus::name_of(const Source& source, std::size_t file) {
    const fs::path path(source.config.path);
    if (path.filename() == source.files[file]) return path.generic_string();
    return (path / source.files[file]).generic_string();
}

std::vector<std::string> Corpus::paths() const {
    std::vector<std::string> names;
    for (const Source& source : sources_)
        for (std::size_t i = 0; i < source.files.size(); ++i) names.push_back(name_of(source, i));
    return names;
}

std::string Corpus::path_of(const Source& source, const Block& block) {
    return (fs::path(source.root) / source.files[block.file]).string();
}

Result<std::string> Corpus::text_in_file(const Source& source, const Block& block) {
    const std::string path = path_of(source, block);
    std::ifstream file(path, std::ios::binary);
    if (!file)
        return make_error(ErrorKind::local_fault, "cannot read {}: {}", path, std::strerror(errno));
    std::string text(block.bytes, '\0');
    file.seekg(static_cast<std::streamoff>(block.offset));
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad())
        return make_error(ErrorKind::local_fault, "cannot read {}: {}", path, std::strerror(errno));
    DEDLOC_TRY(const FileStamp now, stamp_of(path));  // after reading, so nothing changed before
    if (now != source.stamps[block.file] ||
        static_cast<std::size_t>(file.gcount()) != text.size() || first_invalid(text))
        return make_error(ErrorKind::bad_input,
                          "{} changed while it was in use; start again, and leave the data of a "
                          "run alone",
                          path);
    return text;
}

Result<std::string> Corpus::text_of(const Source& source, const Block& block) const {
    if (!shared_) return text_in_file(source, block);
    DEDLOC_TRY(std::string text, shared_->read(block.number));
    if (const auto at = first_invalid(text))
        return make_error(ErrorKind::bad_input,
                          "block {} of the run's text is not UTF-8 at byte {}",
                          block.number,
                          *at);
    return text;
}

// A file may begin well and go on otherwise: some blocks, evenly spread, tell before hours are
// spent on what is left of it.
Ok Corpus::check_records(const Source& source, const std::vector<Block>& blocks) {
    std::uint64_t records = 0;
    std::uint64_t bad = 0;
    std::string example;
    const std::size_t count = std::min(blocks.size(), checked_blocks_max);
    for (std::size_t i = 0; i < count; ++i) {
        const Block& block = blocks[i * blocks.size() / count];
        DEDLOC_TRY(const std::string text, text_in_file(source, block));
        for (const std::string_view line : lines_of(text)) {
            ++records;
            const auto record = text_of_json_line(line, source.config.field);
            if (record || ++bad > 1) continue;
            example =
                fmt::format("{}, byte {}: {}",
                            path_of(source, block),
                            block.offset + static_cast<std::uint64_t>(line.data() - text.data()),
                            record.error().message());
        }
    }
    constexpr std::uint64_t some = 100;  // one of so many is worth a word
    if (bad * 2 > records)
        return make_error(ErrorKind::bad_input,
                          "{} of {} records that were looked at have no text, such as {}",
                          bad,
                          records,
                          example);
    if (bad * some > records)
        log(LogLevel::warning,
            "text",
            "{:.0f} % of the records are left out: {} of {} that were looked at have no text, such "
            "as {}",
            100 * static_cast<double>(bad) / static_cast<double>(records),
            bad,
            records,
            example);
    return {};
}

Result<std::vector<Document>> Corpus::read(std::size_t index, const Block& block) const {
    const Source& source = sources_[index];
    DEDLOC_TRY(const std::string text, text_of(source, block));
    std::vector<Document> documents;
    if (source.config.format != SourceFormat::json_lines) {
        append_documents(text, source.config, documents);
        return documents;
    }
    for (const std::string& record : records_of(source, block, text))
        append_documents(record, source.config, documents);
    return documents;
}

Result<std::vector<RawDocument>> Corpus::read_raw(std::size_t index, const Block& block) const {
    const Source& source = sources_[index];
    DEDLOC_TRY(std::string text, text_of(source, block));
    std::vector<RawDocument> documents;
    const auto add = [&](std::string_view part) {
        if (source.config.documents == DocumentUnit::file)
            documents.push_back({.text = std::string(part)});
        else
            for (const std::string_view piece : source.config.documents == DocumentUnit::line
                                                    ? lines_of(part)
                                                    : paragraphs_of(part))
                documents.push_back({.text = std::string(piece)});
    };
    if (source.config.format == SourceFormat::json_lines) {
        for (const std::string& record : records_of(source, block, text)) add(record);
        return documents;
    }
    add(text);
    if (source.config.documents == DocumentUnit::file) {
        documents.front().begins = block.offset <= byte_order_mark_bytes;
        documents.front().ends = block.offset + block.bytes >= source.stamps[block.file].bytes;
    }
    return documents;
}

std::vector<std::string> Corpus::records_of(const Source& source,
                                            const Block& block,
                                            std::string_view text) const {
    std::vector<std::string> records;
    for (const std::string_view line : lines_of(text)) {
        auto record = text_of_json_line(line, source.config.field);
        if (record) {
            records.push_back(*std::move(record));
            continue;
        }
        // One bad line among millions must not end a training of days.
        if (bad_records_.fetch_add(1) < bad_records_logged_max)
            log(LogLevel::warning,
                "text",
                "{}: the line at byte {} is left out: {}",
                path_of(source, block),
                block.offset + static_cast<std::uint64_t>(line.data() - text.data()),
                record.error().message());
    }
    return records;
}

std::string Corpus::description() const {
    std::string text;
    for (const Source& source : sources_)
        text += fmt::format("{}{}: {:.1f} MB in {} file{}",
                            text.empty() ? "" : "; ",
                            to_string({source.config}),
                            static_cast<double>(source.bytes) / 1e6,
                            source.files.size(),
                            source.files.size() == 1 ? "" : "s");
    return text;
}

Ok Corpus::visit_blocks(std::uint64_t bytes_max,
                        const std::function<Result<bool>(std::size_t, const Block&)>& take) const {
    for (std::size_t index = 0; index < sources_.size(); ++index) {
        const Source& source = sources_[index];
        // A source's part of the bytes is as large as its part of the corpus.
        const double part = static_cast<double>(source.bytes) / static_cast<double>(bytes_);
        const double wanted = static_cast<double>(bytes_max) * part;
        const double step = std::max(1.0, static_cast<double>(source.bytes) / wanted);
        for (double at = 0; at < static_cast<double>(source.train.size()); at += step) {
            DEDLOC_TRY(const bool goes_on, take(index, source.train[static_cast<std::size_t>(at)]));
            if (!goes_on) return {};
        }
    }
    return {};
}

Ok Corpus::visit_sentences(std::uint64_t bytes_max,
                           const std::function<bool(const std::string&)>& take) const {
    return visit_blocks(bytes_max, [&](std::size_t index, const Block& block) -> Result<bool> {
        DEDLOC_TRY(const auto documents, read(index, block));
        for (const Document& document : documents)
            for (const std::string& sentence : document)
                if (!take(sentence)) return false;
        return true;
    });
}

Ok Corpus::visit_texts(std::uint64_t bytes_max,
                       const std::function<bool(const std::string&)>& take) const {
    return visit_blocks(bytes_max, [&](std::size_t index, const Block& block) -> Result<bool> {
        DEDLOC_TRY(const auto documents, read_raw(index, block));
        for (const RawDocument& document : documents)
            if (!take(document.text)) return false;
        return true;
    });
}

}  // namespace dedloc::text
