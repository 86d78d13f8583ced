// light_bench: what encoding and adding sparse contributions, or those of low rank, costs the
// processor, an element, beside a copy of the vector; and error feedback, which keeps what was left
// out.
//
//   light_bench [--quick] [--codec low_rank]   prints one JSON object, nanoseconds an element:
//     memcpy_ns    a copy of the fp32 vector (as all of these, the median)
//     encode_ns    choosing and encoding (codec "sparse")
//     add_ns       adding one such contribution to a sum
//     feedback_ns  a contribution with what was not sent before (replica/unsent_gradients.h)

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <utility>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/codec/codec.h"
#include "dedloc/measure/median.h"
#include "dedloc/replica/unsent_gradients.h"

#include "bench/cpu_seconds.h"

namespace {

using namespace dedloc;

double median_ns(int calls, std::size_t elements, const std::function<void()>& call) {
    std::vector<double> ns;
    for (int i = 0; i < calls; ++i) {
        const double begin = bench::cpu_seconds();
        call();
        ns.push_back((bench::cpu_seconds() - begin) * 1e9 / static_cast<double>(elements));
    }
    return measure::median(std::move(ns));
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("processor time of sparse contributions");
    bool quick = false;
    std::string name = "sparse";
    app.add_flag("--quick", quick, "a tiny vector");
    app.add_option("--codec", name, "of contributions")
        ->check(CLI::IsMember({"sparse", "low_rank"}));
    CLI11_PARSE(app, argc, argv);
    const codec::CodecId id = *codec::codec_from_string(name);
    const std::size_t elements = quick ? 1u << 16 : 1u << 24;
    const int calls = quick ? 1 : 9;
    Random random(1);
    std::vector<float> values(elements);
    for (float& value : values) value = static_cast<float>(random.normal());
    std::vector<float> copy(elements);
    std::vector<float> sum(elements);
    Bytes bytes(codec::encoded_size(id, elements));
    replica::UnsentGradients unsent(elements, id);
    const double copy_ns = median_ns(calls, elements, [&] {
        std::memcpy(copy.data(), values.data(), elements * sizeof(float));
    });
    const double encode_ns =
        median_ns(calls, elements, [&] { codec::encode_into(id, values, bytes); });
    const double add_ns =
        median_ns(calls, elements, [&] { codec::accumulate_verified(id, bytes, 1.0f, sum); });
    const double feedback_ns = median_ns(calls, elements, [&] {
        std::memcpy(copy.data(), values.data(), elements * sizeof(float));
        unsent.hand_in(copy, 1);
        unsent.settle({{0, elements}});
    });
    std::printf("%s\n",
                fmt::format("{{\"elements\": {}, \"memcpy_ns\": {:.4f}, \"encode_ns\": {:.4f}, "
                            "\"add_ns\": {:.4f}, \"feedback_ns\": {:.4f}}}",
                            elements,
                            copy_ns,
                            encode_ns,
                            add_ns,
                            feedback_ns)
                    .c_str());
    return 0;
}
