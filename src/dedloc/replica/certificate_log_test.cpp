#include "dedloc/replica/certificate_log.h"

#include <gtest/gtest.h>

#include "dedloc/sim/world.h"

namespace dedloc::replica {
namespace {

// One certificate is 100 bytes, in the file 104.
Bytes certificate(int number) { return Bytes(100, static_cast<std::uint8_t>(number)); }

class CertificateLogTest : public ::testing::Test {
  protected:
    CertificateLogTest() : node_(world_.add_node()) {}
    ~CertificateLogTest() override { world_.run_task(node_.host().stop()); }

    // A process that accepts these, one by one, and ends.
    void process_logs(int begin, int end, CertificateLog::Limits limits) {
        CertificateLog log(node_.runtime(), limits);
        log.start();
        for (int i = begin; i < end; ++i) {
            log.add(certificate(i));
            world_.run_for(1ms);
        }
        world_.run_task(log.stop());
    }
    std::vector<std::string> files() { return certificate_files(*node_.disk().list("")); }
    std::vector<Bytes> logged() {
        std::vector<Bytes> all;
        for (const std::string& name : files())
            for (Bytes& one : read_certificate_log(*node_.disk().read(name)))
                all.push_back(std::move(one));
        return all;
    }
    static std::vector<Bytes> certificates(int begin, int end) {
        std::vector<Bytes> all;
        for (int i = begin; i < end; ++i) all.push_back(certificate(i));
        return all;
    }

    sim::World world_{1};
    sim::SimNode& node_;
};

TEST_F(CertificateLogTest, goes_on_in_another_file_when_one_is_full_and_drops_the_oldest) {
    process_logs(0, 14, {.file_bytes = 312, .files = 4});
    EXPECT_EQ(files(),
              (std::vector<std::string>{"certificates.1.log",
                                        "certificates.2.log",
                                        "certificates.3.log",
                                        "certificates.4.log"}));
    EXPECT_EQ(logged(), certificates(3, 14)) << "three a file, the first file is gone";
}

TEST_F(CertificateLogTest, a_process_that_begins_again_appends_to_the_newest_file) {
    const CertificateLog::Limits limits{.file_bytes = 312, .files = 20};
    for (int i = 0; i < 33; ++i) process_logs(i, i + 1, limits);
    EXPECT_EQ(files().size(), 11u);
    EXPECT_EQ(logged(), certificates(0, 33)) << "in order, with .9 before .10";
}

TEST_F(CertificateLogTest, a_torn_tail_is_cut_off_before_the_next_is_appended) {
    const CertificateLog::Limits limits{.file_bytes = 312, .files = 20};
    process_logs(0, 4, limits);
    ASSERT_TRUE(node_.disk().append_durably("certificates.1.log", Bytes(50, 1)));
    process_logs(4, 6, limits);
    EXPECT_EQ(logged(), certificates(0, 6));
}

TEST_F(CertificateLogTest, what_a_full_disk_refused_is_missing_and_the_rest_is_whole) {
    const CertificateLog::Limits limits{.file_bytes = 312, .files = 20};
    process_logs(0, 2, limits);
    node_.disk().set_full(true);
    process_logs(2, 3, limits);
    node_.disk().set_full(false);
    process_logs(3, 5, limits);
    std::vector<Bytes> expected = certificates(0, 2);
    for (Bytes& one : certificates(3, 5)) expected.push_back(std::move(one));
    EXPECT_EQ(logged(), expected);
}

TEST(CertificateFiles, are_told_from_other_names) {
    EXPECT_EQ(certificate_files({"certificates.10.log",
                                 "certificates.2.log",
                                 "certificates.log",
                                 "certificates.0.log",
                                 "certificates.x.log",
                                 "certificates..log",
                                 "certificates.",
                                 "certificates.1.log.bak",
                                 "events.jsonl"}),
              (std::vector<std::string>{
                  "certificates.log", "certificates.2.log", "certificates.10.log"}));
}

}  // namespace
}  // namespace dedloc::replica
