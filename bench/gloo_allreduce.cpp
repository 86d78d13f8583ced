// The anchor of allreduce_fp32: Debian's Gloo, one process of a group on loopback, unencrypted.
//
//   gloo_allreduce --rank R --size P --elements E --rounds N --algorithm ring|bcube --folder DIR
//
// DIR is empty at the start and shared by the group. Each rank prints one JSON object; `cpu_s` is
// its processor time until everybody has the sum. Every round's sum is checked. Two rounds before
// the first measured one warm up connections and buffers.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <memory>
#include <string>
#include <vector>

#include "bench/cpu_seconds.h"

namespace {

struct Arguments {
    int rank = 0;
    int size = 1;
    std::size_t elements = 1 << 24;
    int rounds = 5;
    std::string algorithm = "ring";
    std::string folder;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

bool is_right(const std::vector<float>& sums, int size) {
    const float expected = static_cast<float>(size * (size + 1)) / 2.0f;
    for (std::size_t i = 0; i < sums.size(); i += 997)
        if (std::fabs(sums[i] - expected) > 1e-3f) return false;
    return true;
}

void wait_for_all(const std::shared_ptr<gloo::Context>& context) {
    gloo::BarrierOptions barrier(context);
    barrier.setTag(9);
    gloo::barrier(barrier);
}

int run_rounds(const Arguments& arguments) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(arguments.folder);
    auto context = std::make_shared<gloo::rendezvous::Context>(arguments.rank, arguments.size);
    context->setTimeout(std::chrono::seconds(60));
    context->connectFullMesh(store, device);

    std::vector<float> values(arguments.elements);
    std::vector<double> seconds;
    std::vector<double> cpu;
    for (int round = -2; round < arguments.rounds; ++round) {
        std::fill(values.begin(), values.end(), static_cast<float>(arguments.rank) + 1.0f);
        wait_for_all(context);

        const double cpu_before = dedloc::bench::cpu_seconds();
        const auto before = std::chrono::steady_clock::now();
        gloo::AllreduceOptions options(context);
        options.setOutput(values.data(), values.size());
        options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
            gloo::sum<float>(out, a, b, count);
        });
        options.setAlgorithm(arguments.algorithm == "ring"
                                 ? gloo::AllreduceOptions::Algorithm::RING
                                 : gloo::AllreduceOptions::Algorithm::BCUBE);
        options.setTag(7);
        gloo::allreduce(options);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
        wait_for_all(context);
        if (round >= 0) {
            seconds.push_back(took.count());
            cpu.push_back(dedloc::bench::cpu_seconds() - cpu_before);
        }
        if (!is_right(values, arguments.size)) {
            std::fprintf(stderr, "rank %d: a sum is wrong\n", arguments.rank);
            return 1;
        }
    }
    std::printf("{\"seconds\": %.6f, \"seconds_min\": %.6f, \"cpu_s\": %.6f}\n",
                median(seconds),
                *std::min_element(seconds.begin(), seconds.end()),
                median(cpu));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    Arguments arguments;
    CLI::App app("Gloo's all-reduce on loopback");
    app.add_option("--rank", arguments.rank)->required();
    app.add_option("--size", arguments.size)->required();
    app.add_option("--elements", arguments.elements);
    app.add_option("--rounds", arguments.rounds)->check(CLI::Range(1, 10000));
    app.add_option("--algorithm", arguments.algorithm)->check(CLI::IsMember({"ring", "bcube"}));
    app.add_option("--folder", arguments.folder)->required();
    CLI11_PARSE(app, argc, argv);
    try {
        return run_rounds(arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "gloo_allreduce: %s\n", error.what());
        return 1;
    }
}
