#include "dedloc/tasks/fine_tune.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "dedloc/base/random.h"
#include "dedloc/text/entity_score.h"

namespace dedloc::tasks {
namespace {

constexpr double names_of_test = 0.2;
constexpr double evaluation_of_rest = 0.1;

std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
    std::vector<std::size_t> places(count);
    std::iota(places.begin(), places.end(), std::size_t{0});
    Random random(seed);
    for (std::size_t i = count; i > 1; --i) std::swap(places[i - 1], places[random.below(i)]);
    return places;
}

std::size_t part_of(std::size_t count, double part) {
    return static_cast<std::size_t>(std::llround(static_cast<double>(count) * part));
}

std::vector<std::string> words_of(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(std::move(word));
    return words;
}

std::string name_of(const text::LabelledSentence& sentence, const text::Entity& entity) {
    std::string name;
    for (std::size_t word = entity.first; word <= entity.last; ++word)
        name += sentence.words[word] + " ";
    return name;
}

class NaiveBayes {
  public:
    explicit NaiveBayes(std::size_t classes) : words_(classes), sums_(classes), texts_(classes) {}

    void learn(const text::LabelledText& text) {
        texts_[text.label] += 1;
        for (const std::string& word : words_of(text.text)) {
            words_[text.label][word] += 1;
            sums_[text.label] += 1;
            vocabulary_.insert(word);
        }
    }
    std::size_t classify(const std::string& text) const {
        std::size_t best = 0;
        double best_score = 0;
        const std::vector<std::string> words = words_of(text);
        for (std::size_t label = 0; label < texts_.size(); ++label) {
            if (texts_[label] == 0) continue;
            double score = std::log(texts_[label]);
            for (const std::string& word : words) {
                if (!vocabulary_.contains(word)) continue;
                const auto found = words_[label].find(word);
                const double count = found == words_[label].end() ? 0 : found->second;
                score += std::log((count + 1) /
                                  (sums_[label] + static_cast<double>(vocabulary_.size())));
            }
            if (best_score == 0 || score > best_score) {
                best = label;
                best_score = score;
            }
        }
        return best;
    }

  private:
    std::vector<std::map<std::string, double>> words_;
    std::vector<double> sums_;
    std::vector<double> texts_;
    std::set<std::string> vocabulary_;
};

}  // namespace

FineTuneSplit split_by_chance(std::size_t count,
                              double test,
                              double evaluation,
                              std::uint64_t seed) {
    const std::vector<std::size_t> places = shuffled(count, seed);
    const std::size_t tests = part_of(count, test);
    const std::size_t evaluations = part_of(count - tests, evaluation);
    const auto begin = places.begin();
    const auto at = [begin](std::size_t place) {
        return begin + static_cast<std::ptrdiff_t>(place);
    };
    FineTuneSplit split;
    split.test.assign(begin, at(tests));
    split.evaluation.assign(at(tests), at(tests + evaluations));
    split.train.assign(at(tests + evaluations), places.end());
    return split;
}

FineTuneSplit split_by_names(const std::vector<text::LabelledSentence>& sentences,
                             std::uint64_t seed) {
    std::vector<std::vector<std::string>> names(sentences.size());
    std::set<std::string> all;
    for (std::size_t i = 0; i < sentences.size(); ++i)
        for (const text::Entity& entity : text::entities_of(sentences[i].labels)) {
            names[i].push_back(name_of(sentences[i], entity));
            all.insert(names[i].back());
        }
    const std::vector<std::string> list(all.begin(), all.end());
    const std::vector<std::size_t> order = shuffled(list.size(), seed);
    std::set<std::string> of_test;
    for (std::size_t i = 0; i < part_of(list.size(), names_of_test); ++i)
        of_test.insert(list[order[i]]);
    FineTuneSplit split;
    Random random(base::mix64(seed));
    for (const std::size_t i : shuffled(sentences.size(), seed)) {
        const auto hidden = std::ranges::count_if(
            names[i], [&](const std::string& name) { return of_test.contains(name); });
        const bool is_test = hidden > 0;
        if (is_test && static_cast<std::size_t>(hidden) < names[i].size()) continue;
        auto& part = is_test                             ? split.test
                     : random.chance(evaluation_of_rest) ? split.evaluation
                                                         : split.train;
        part.push_back(i);
    }
    return split;
}

double majority_share(const FineTuneData& data, const FineTuneSplit& split) {
    std::vector<std::size_t> counts(data.labels.size());
    for (const std::size_t i : split.train) ++counts[data.texts[i].label];
    const auto most = static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin());
    const auto right = std::ranges::count_if(
        split.test, [&](std::size_t i) { return data.texts[i].label == most; });
    return static_cast<double>(right) / static_cast<double>(split.test.size());
}

double bag_of_words_accuracy(const FineTuneData& data, const FineTuneSplit& split) {
    NaiveBayes bayes(data.labels.size());
    for (const std::size_t i : split.train) bayes.learn(data.texts[i]);
    const auto right = std::ranges::count_if(split.test, [&](std::size_t i) {
        return bayes.classify(data.texts[i].text) == data.texts[i].label;
    });
    return static_cast<double>(right) / static_cast<double>(split.test.size());
}

MeanAndDeviation mean_and_deviation(const std::vector<double>& values) {
    MeanAndDeviation result;
    if (values.empty()) return result;
    for (const double value : values) result.mean += value;
    result.mean /= static_cast<double>(values.size());
    if (values.size() < 2) return result;
    double squares = 0;
    for (const double value : values) squares += (value - result.mean) * (value - result.mean);
    result.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
    return result;
}

}  // namespace dedloc::tasks
