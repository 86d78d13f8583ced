#include "dedloc/fleet/notice_source.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "dedloc/base/printable.h"

namespace dedloc::fleet {
namespace {

using Words = nlohmann::json;
using Notice = Result<std::optional<std::string>>;

constexpr const char* metadata_address = "http://169.254.169.254";  // of all three clouds
constexpr std::size_t said_bytes_max = 120;
constexpr std::size_t token_bytes_max = 4096;

constexpr int http_ok = 200;
constexpr int http_no_content = 204;
constexpr int http_unauthorized = 401;
constexpr int http_not_found = 404;

std::string_view trimmed(std::string_view text) {
    const auto is_blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

std::string said(std::string_view text) { return base::printable(text, said_bytes_max); }

Error no_notice(const HttpRequest& asked, const HttpAnswer& answer) {
    return make_error(ErrorKind::peer_broke_protocol,
                      "{}{} answers with status {} and no words of a metadata service: '{}'",
                      asked.address,
                      asked.path,
                      answer.status,
                      said(answer.body));
}

// The text under a key; empty where there is none.
std::string text_in(const Words& object, const char* key) {
    if (!object.is_object()) return {};
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

class AwsSource final : public NoticeSource {
  public:
    AwsSource(std::string address, Fetch fetch)
        : address_(std::move(address)), fetch_(std::move(fetch)) {}

    Notice poll() override {
        DEDLOC_TRY(HttpAnswer answer, ask());
        if (answer.status == http_unauthorized) {  // the token has ended
            token_.clear();
            DEDLOC_TRY(answer, ask());
        }
        if (answer.status == http_not_found) return std::optional<std::string>();
        if (answer.status != http_ok) return no_notice(request(), answer);
        const Words words = Words::parse(answer.body, nullptr, /*allow_exceptions=*/false);
        const std::string action = text_in(words, "action");
        if (action.empty()) return no_notice(request(), answer);
        return std::optional(fmt::format(
            "AWS takes this machine: {} at {}", said(action), said(text_in(words, "time"))));
    }

  private:
    HttpRequest request() const {
        return {.address = address_,
                .path = "/latest/meta-data/spot/instance-action",
                .headers = {{"X-aws-ec2-metadata-token", token_}}};
    }
    Result<HttpAnswer> ask() {
        if (token_.empty()) {
            const HttpRequest wish{.address = address_,
                                   .path = "/latest/api/token",
                                   .headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}},
                                   .puts = true};
            DEDLOC_TRY(const HttpAnswer answer, fetch_(wish));
            const std::string_view token = trimmed(answer.body);
            const bool is_token =
                std::ranges::all_of(token, [](char c) { return c > 32 && c < 127; });
            if (answer.status != http_ok || token.empty() || token.size() > token_bytes_max ||
                !is_token)
                return no_notice(wish, answer);
            token_ = std::string(token);
        }
        return fetch_(request());
    }

    std::string address_;
    Fetch fetch_;
    std::string token_;
};

class GcpSource final : public NoticeSource {
  public:
    GcpSource(std::string address, Fetch fetch)
        : address_(std::move(address)), fetch_(std::move(fetch)) {}

    Notice poll() override {
        const HttpRequest wish{.address = address_,
                               .path = "/computeMetadata/v1/instance/preempted",
                               .headers = {{"Metadata-Flavor", "Google"}}};
        DEDLOC_TRY(const HttpAnswer answer, fetch_(wish));
        const std::string_view word = trimmed(answer.body);
        if (answer.status == http_ok && word == "FALSE") return std::optional<std::string>();
        if (answer.status == http_ok && word == "TRUE")
            return std::optional<std::string>("Google Cloud takes this machine");
        return no_notice(wish, answer);
    }

  private:
    std::string address_;
    Fetch fetch_;
};

// Events are told to all machines of a scale set: those that name ours count.
class AzureSource final : public NoticeSource {
  public:
    AzureSource(std::string address, Fetch fetch)
        : address_(std::move(address)), fetch_(std::move(fetch)) {}

    Notice poll() override {
        if (name_.empty()) {
            const HttpRequest wish =
                request("/metadata/instance/compute/name?api-version=2021-02-01&format=text");
            DEDLOC_TRY(const HttpAnswer answer, fetch_(wish));
            name_ = std::string(trimmed(answer.body));
            if (answer.status != http_ok || name_.empty()) {
                name_.clear();
                return no_notice(wish, answer);
            }
        }
        const HttpRequest wish = request("/metadata/scheduledevents?api-version=2020-07-01");
        DEDLOC_TRY(const HttpAnswer answer, fetch_(wish));
        const Words words = Words::parse(answer.body, nullptr, /*allow_exceptions=*/false);
        if (answer.status != http_ok || !words.is_object() || !words.contains("Events") ||
            !words["Events"].is_array())
            return no_notice(wish, answer);
        for (const Words& event : words["Events"]) {
            const std::string type = text_in(event, "EventType");
            if ((type != "Preempt" && type != "Terminate") || !is_ours(event)) continue;
            return std::optional(fmt::format("Azure takes this machine: {}, not before {}",
                                             type,
                                             said(text_in(event, "NotBefore"))));
        }
        return std::optional<std::string>();
    }

  private:
    HttpRequest request(std::string path) const {
        return {.address = address_, .path = std::move(path), .headers = {{"Metadata", "true"}}};
    }
    bool is_ours(const Words& event) const {
        const auto resources = event.find("Resources");
        return resources != event.end() && resources->is_array() &&
               std::ranges::any_of(*resources, [&](const Words& resource) {
                   return resource.is_string() && resource.get<std::string>() == name_;
               });
    }

    std::string address_;
    Fetch fetch_;
    std::string name_;
};

class UrlSource final : public NoticeSource {
  public:
    UrlSource(HttpRequest request, Fetch fetch)
        : request_(std::move(request)), fetch_(std::move(fetch)) {}

    Notice poll() override {
        DEDLOC_TRY(const HttpAnswer answer, fetch_(request_));
        if (answer.status == http_no_content || answer.status == http_not_found)
            return std::optional<std::string>();
        if (answer.status != http_ok) return no_notice(request_, answer);
        return std::optional(fmt::format(
            "{} says that this machine is taken: {}", request_.address, said(answer.body)));
    }

  private:
    HttpRequest request_;
    Fetch fetch_;
};

class FileSource final : public NoticeSource {
  public:
    explicit FileSource(std::string path) : path_(std::move(path)) {}

    Notice poll() override {
        std::error_code error;
        if (std::filesystem::exists(path_, error))
            return std::optional(fmt::format("{} is there: this machine is taken", path_));
        if (error)
            return make_error(
                ErrorKind::local_fault, "cannot look for {}: {}", path_, error.message());
        return std::optional<std::string>();
    }

  private:
    std::string path_;
};

}  // namespace

Result<NoticePlace> parse_notice_place(std::string_view text) {
    if (text.starts_with("http://")) {
        DEDLOC_TRY_VOID(split_url(text));
        return NoticePlace{"http", std::string(text)};
    }
    const std::size_t equals = std::min(text.find('='), text.size());
    NoticePlace place{std::string(text.substr(0, equals)),
                      std::string(text.substr(std::min(equals + 1, text.size())))};
    if (place.kind == "file" && !place.address.empty()) return place;
    if (place.kind == "aws" || place.kind == "gcp" || place.kind == "azure") {
        if (place.address.empty() && equals == text.size()) place.address = metadata_address;
        DEDLOC_TRY(const HttpRequest asked, split_url(place.address));
        place.address = asked.address;
        return place;
    }
    return make_error(ErrorKind::bad_input,
                      "'{}' tells of no preemption: give aws, gcp, azure, aws=http://HOST:PORT, "
                      "http://HOST:PORT/PATH or file=PATH",
                      said(text));
}

std::unique_ptr<NoticeSource> make_notice_source(const NoticePlace& place, Fetch fetch) {
    if (place.kind == "aws") return std::make_unique<AwsSource>(place.address, std::move(fetch));
    if (place.kind == "gcp") return std::make_unique<GcpSource>(place.address, std::move(fetch));
    if (place.kind == "azure")
        return std::make_unique<AzureSource>(place.address, std::move(fetch));
    if (place.kind == "file") return std::make_unique<FileSource>(place.address);
    const auto request = split_url(place.address);
    DEDLOC_CHECK(request, "a place is made by parse_notice_place");
    return std::make_unique<UrlSource>(*request, std::move(fetch));
}

}  // namespace dedloc::fleet
