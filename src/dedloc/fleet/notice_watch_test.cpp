// Over real HTTP on loopback: a service that speaks as AWS does, one that says too much, one that
// says nothing, and none at all.

#include "dedloc/fleet/notice_watch.h"

#include <atomic>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace dedloc::fleet {
namespace {

using namespace std::chrono_literals;

constexpr int look_ms = 5;
constexpr int looks_max = 4000;
constexpr auto quickly = 5ms;

class MetadataService {
  public:
    MetadataService() {
        server_.Put("/latest/api/token", [](const httplib::Request&, httplib::Response& answer) {
            answer.set_content("token-of-ours", "text/plain");
        });
        server_.Get("/latest/meta-data/spot/instance-action",
                    [this](const httplib::Request& request, httplib::Response& answer) {
                        ++asked;
                        if (request.get_header_value("X-aws-ec2-metadata-token") != "token-of-ours")
                            answer.status = 401;
                        else if (!taken)
                            answer.status = 404;
                        else
                            answer.set_content(R"({"action": "stop", "time": "soon"})",
                                               "application/json");
                    });
        server_.Get("/long", [](const httplib::Request&, httplib::Response& answer) {
            answer.set_content(std::string(2 * http_body_bytes_max, 'x'), "text/plain");
        });
        port_ = server_.bind_to_any_port("127.0.0.1");
        thread_ = std::thread([this] { server_.listen_after_bind(); });
    }
    ~MetadataService() {
        while (!server_.is_running()) std::this_thread::yield();
        server_.stop();
        thread_.join();
    }
    std::string address() const { return "http://127.0.0.1:" + std::to_string(port_); }

    std::atomic<int> asked = 0;
    std::atomic<bool> taken = false;

  private:
    httplib::Server server_;
    int port_ = 0;
    std::thread thread_;
};

NoticePlace place(const std::string& text) {
    const auto parsed = parse_notice_place(text);
    EXPECT_TRUE(parsed);
    return *parsed;
}

template <typename Done>
bool until(Done done) {
    for (int looks = 0; looks < looks_max; ++looks) {
        if (done()) return true;
        ::poll(nullptr, 0, look_ms);
    }
    return false;
}

TEST(NoticeWatch, hears_of_the_end_when_it_is_told_and_not_before) {
    MetadataService service;
    NoticeWatch watch(place("aws=" + service.address()), quickly);
    EXPECT_TRUE(until([&] { return service.asked > 2; }));
    EXPECT_EQ(watch.notice(), "");
    service.taken = true;
    EXPECT_TRUE(until([&] { return !watch.notice().empty(); }));
    EXPECT_EQ(watch.notice(), "AWS takes this machine: stop at soon");
    EXPECT_EQ(watch.take_problem(), "");
}

TEST(NoticeWatch, says_once_that_nobody_answers) {
    std::string address;
    { address = MetadataService().address(); }
    NoticeWatch watch(place("gcp=" + address), quickly);
    std::string problem;
    EXPECT_TRUE(until([&] { return !(problem = watch.take_problem()).empty(); }));
    EXPECT_NE(problem.find(address + " does not answer"), std::string::npos) << problem;
    EXPECT_EQ(watch.take_problem(), "");
    EXPECT_EQ(watch.notice(), "");
}

TEST(NoticeWatch, an_answer_without_end_is_refused) {
    MetadataService service;
    NoticeWatch watch(place(service.address() + "/long"), quickly);
    std::string problem;
    EXPECT_TRUE(until([&] { return !(problem = watch.take_problem()).empty(); }));
    EXPECT_NE(problem.find("too great length"), std::string::npos) << problem;
}

// The server takes connections and says nothing.
TEST(NoticeWatch, ends_at_once_although_a_service_is_silent) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener, 4), 0);
    socklen_t size = sizeof address;
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    int taken = -1;
    {
        NoticeWatch watch(place("gcp=http://127.0.0.1:" + std::to_string(ntohs(address.sin_port))),
                          quickly);
        taken = ::accept(listener, nullptr, nullptr);  // it is under way
        EXPECT_GE(taken, 0);
    }
    ::close(taken);
    ::close(listener);
}

}  // namespace
}  // namespace dedloc::fleet
