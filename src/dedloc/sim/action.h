// Action: a move-only function without arguments, small ones without an allocation. What the
// event queue holds millions of.

#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace dedloc::sim {

class Action {
  public:
    Action() = default;

    template <typename F>
    requires(!std::is_same_v<std::decay_t<F>, Action>)
        Action(F&& function) {  // NOLINT: meant to convert
        using Stored = std::decay_t<F>;
        if constexpr (sizeof(Stored) <= inline_bytes && alignof(Stored) <= alignof(void*) &&
                      std::is_nothrow_move_constructible_v<Stored>) {
            ::new (static_cast<void*>(bytes_)) Stored(std::forward<F>(function));
            table_ = &inline_table<Stored>;
        } else {
            using Pointer = std::unique_ptr<Stored>;
            ::new (static_cast<void*>(bytes_))
                Pointer(std::make_unique<Stored>(std::forward<F>(function)));
            table_ = &heap_table<Stored>;
        }
    }
    Action(Action&& other) noexcept { take(other); }
    Action& operator=(Action&& other) noexcept {
        if (this != &other) {
            clear();
            take(other);
        }
        return *this;
    }
    ~Action() { clear(); }

    explicit operator bool() const { return table_ != nullptr; }
    void operator()() { table_->call(bytes_); }
    void clear() {
        if (table_ != nullptr) std::exchange(table_, nullptr)->destroy(bytes_);
    }

  private:
    static constexpr std::size_t inline_bytes = 48;

    struct Table {
        void (*call)(void*);
        void (*move)(void* to, void* from);  // and destroys `from`
        void (*destroy)(void*);
    };

    template <typename T>
    static T& at(void* bytes) {
        return *std::launder(reinterpret_cast<T*>(bytes));
    }

    template <typename T>
    static constexpr Table inline_table = {[](void* bytes) { at<T>(bytes)(); },
                                           [](void* to, void* from) {
                                               ::new (to) T(std::move(at<T>(from)));
                                               at<T>(from).~T();
                                           },
                                           [](void* bytes) { at<T>(bytes).~T(); }};

    template <typename T>
    static constexpr Table heap_table = {
        [](void* bytes) { (*at<std::unique_ptr<T>>(bytes))(); },
        [](void* to, void* from) {
            ::new (to) std::unique_ptr<T>(std::move(at<std::unique_ptr<T>>(from)));
            std::destroy_at(&at<std::unique_ptr<T>>(from));
        },
        [](void* bytes) { std::destroy_at(&at<std::unique_ptr<T>>(bytes)); }};

    void take(Action& other) {
        if (other.table_ == nullptr) return;
        other.table_->move(bytes_, other.bytes_);
        table_ = std::exchange(other.table_, nullptr);
    }

    alignas(void*) std::byte bytes_[inline_bytes];
    const Table* table_ = nullptr;
};

}  // namespace dedloc::sim
