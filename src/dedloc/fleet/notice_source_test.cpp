// The words of each cloud's metadata service, and what is none of theirs.

#include "dedloc/fleet/notice_source.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <unistd.h>

namespace dedloc::fleet {
namespace {

// A metadata service of answers by path; what is missing is 404.
struct FakeService {
    std::map<std::string, HttpAnswer> answers;
    std::vector<HttpRequest> asked;

    Fetch fetch() {
        return [this](const HttpRequest& request) -> Result<HttpAnswer> {
            asked.push_back(request);
            const auto answer = answers.find(request.path.substr(0, request.path.find('?')));
            return answer == answers.end() ? HttpAnswer{404, "no"} : answer->second;
        };
    }
    std::unique_ptr<NoticeSource> source(std::string_view place) {
        const auto parsed = parse_notice_place(place);
        EXPECT_TRUE(parsed) << parsed.error().message();
        return make_notice_source(*parsed, fetch());
    }
};

std::string heard(NoticeSource& source) {
    const auto seen = source.poll();
    if (!seen) return "error: " + seen.error().message();
    return seen->value_or("");
}

constexpr const char* aws_token = "/latest/api/token";
constexpr const char* aws_action = "/latest/meta-data/spot/instance-action";

TEST(NoticePlace, is_a_cloud_an_address_or_a_file) {
    const auto place = [](std::string_view text) {
        const auto parsed = parse_notice_place(text);
        return parsed ? parsed->kind + " " + parsed->address : "";
    };
    EXPECT_EQ(place("aws"), "aws http://169.254.169.254");
    EXPECT_EQ(place("gcp=http://127.0.0.1:81/x"), "gcp http://127.0.0.1:81");
    EXPECT_EQ(place("file=/run/gone"), "file /run/gone");
    EXPECT_EQ(place("http://10.0.0.1:80/gone"), "http http://10.0.0.1:80/gone");
    for (const char* wrong : {"",
                              "oracle",
                              "aws=",
                              "aws=ftp://x",
                              "file",
                              "file=",
                              "http://",
                              "http://a b",
                              "http://user@host/",
                              "https://x"})
        EXPECT_EQ(place(wrong), "") << wrong;
}

TEST(Aws, asks_for_a_token_once_and_for_the_notice_with_it) {
    FakeService service;
    service.answers[aws_token] = {200, "secret\n"};
    const auto source = service.source("aws");
    EXPECT_EQ(heard(*source), "");
    EXPECT_EQ(heard(*source), "");
    ASSERT_EQ(service.asked.size(), 3u);
    EXPECT_TRUE(service.asked[0].puts);
    EXPECT_EQ(service.asked[0].headers.count("X-aws-ec2-metadata-token-ttl-seconds"), 1u);
    EXPECT_FALSE(service.asked[1].puts);
    EXPECT_EQ(service.asked[2].headers.at("X-aws-ec2-metadata-token"), "secret");
    service.answers[aws_action] = {200,
                                   R"({"action": "terminate", "time": "2026-11-28T08:22:00Z"})"};
    EXPECT_EQ(heard(*source), "AWS takes this machine: terminate at 2026-11-28T08:22:00Z");
}

TEST(Aws, a_token_that_has_ended_is_renewed) {
    FakeService service;
    service.answers[aws_token] = {200, "old"};
    const auto source = service.source("aws");
    EXPECT_EQ(heard(*source), "");
    service.answers[aws_token] = {200, "new"};
    service.answers[aws_action] = {401, ""};
    EXPECT_NE(heard(*source).find("status 401"), std::string::npos);
    EXPECT_EQ(service.asked.back().headers.at("X-aws-ec2-metadata-token"), "new");
}

TEST(Aws, what_is_no_notice_is_an_error_and_never_a_notice) {
    for (const HttpAnswer& answer : {HttpAnswer{200, "<html>"},
                                     HttpAnswer{200, "[1]"},
                                     HttpAnswer{200, R"({"action": 3})"},
                                     HttpAnswer{500, ""}}) {
        FakeService service;
        service.answers[aws_token] = {200, "t"};
        service.answers[aws_action] = answer;
        EXPECT_TRUE(heard(*service.source("aws")).starts_with("error: ")) << answer.body;
    }
    for (const HttpAnswer& answer :
         {HttpAnswer{403, "t"}, HttpAnswer{200, ""}, HttpAnswer{200, "a\r\nb"}}) {
        FakeService service;
        service.answers[aws_token] = answer;
        EXPECT_TRUE(heard(*service.source("aws")).starts_with("error: ")) << answer.body;
    }
}

TEST(Gcp, says_true_or_false) {
    constexpr const char* path = "/computeMetadata/v1/instance/preempted";
    FakeService service;
    service.answers[path] = {200, "FALSE\n"};
    const auto source = service.source("gcp");
    EXPECT_EQ(heard(*source), "");
    EXPECT_EQ(service.asked.back().headers.at("Metadata-Flavor"), "Google");
    service.answers[path] = {200, "TRUE"};
    EXPECT_EQ(heard(*source), "Google Cloud takes this machine");
    service.answers[path] = {200, "perhaps"};
    EXPECT_TRUE(heard(*source).starts_with("error: "));
    service.answers.clear();
    EXPECT_TRUE(heard(*source).starts_with("error: "));
}

TEST(Azure, hears_of_this_machine_alone) {
    constexpr const char* events = "/metadata/scheduledevents";
    FakeService service;
    service.answers["/metadata/instance/compute/name"] = {200, "ours_3"};
    service.answers[events] = {200, R"({"DocumentIncarnation": 1, "Events": []})"};
    const auto source = service.source("azure");
    EXPECT_EQ(heard(*source), "");
    EXPECT_EQ(service.asked.back().headers.at("Metadata"), "true");
    const auto event = [](const char* type, const char* machine) {
        return std::string(R"({"Events": [{"EventType": ")") + type + R"(", "Resources": [")" +
               machine + R"("], "NotBefore": "Mon, 19 Sep 2026 18:29:47 GMT"}]})";
    };
    service.answers[events] = {200, event("Preempt", "ours_2")};
    EXPECT_EQ(heard(*source), "");
    service.answers[events] = {200, event("Reboot", "ours_3")};
    EXPECT_EQ(heard(*source), "");
    service.answers[events] = {200, event("Preempt", "ours_3")};
    EXPECT_EQ(heard(*source),
              "Azure takes this machine: Preempt, not before Mon, 19 Sep 2026 18:29:47 GMT");
    service.answers[events] = {200, R"({"Events": [7, {"EventType": "Preempt"}]})"};
    EXPECT_EQ(heard(*source), "");
    service.answers[events] = {200, R"({"Events": 7})"};
    EXPECT_TRUE(heard(*source).starts_with("error: "));
}

TEST(Url, any_answer_is_a_notice) {
    FakeService service;
    const auto source = service.source("http://10.0.0.1/gone");
    EXPECT_EQ(heard(*source), "");
    service.answers["/gone"] = {204, ""};
    EXPECT_EQ(heard(*source), "");
    service.answers["/gone"] = {503, ""};
    EXPECT_TRUE(heard(*source).starts_with("error: "));
    service.answers["/gone"] = {200, "at noon\x1b[2J\n"};
    EXPECT_EQ(heard(*source), "http://10.0.0.1 says that this machine is taken: at noon?[2J ");
}

TEST(File, is_a_notice_when_it_is_there) {
    const auto path =
        std::filesystem::temp_directory_path() / ("dedloc-notice-" + std::to_string(::getpid()));
    std::filesystem::remove(path);
    FakeService service;
    const auto source = service.source("file=" + path.string());
    EXPECT_EQ(heard(*source), "");
    std::ofstream(path) << "x";
    EXPECT_EQ(heard(*source), path.string() + " is there: this machine is taken");
    EXPECT_TRUE(service.asked.empty());
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace dedloc::fleet
