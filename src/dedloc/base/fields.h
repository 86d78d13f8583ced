// Lists of fields, once each: what a visitor is shown of a struct, in order.
//
//   struct Part {
//       std::uint64_t offset = 0;
//       std::vector<Piece> pieces{};
//       DEDLOC_FIELDS(offset, (pieces, pieces_max))
//   };                       // visit(1, offset); visit(2, pieces, pieces_max);
//   struct Joined {
//       std::string name{};
//       DEDLOC_NAMED_FIELDS(name)
//   };                       // visit("name", name);
//
// Both define `static void fields(visit, self)` for const and other selves. A message whose numbers
// have gaps, as other projects' have, writes that function itself.
//
// Limit: 64 fields.

#pragma once
#include <cstdint>

#define DEDLOC_EXPAND(...) \
    DEDLOC_EXPAND_3(DEDLOC_EXPAND_3(DEDLOC_EXPAND_3(DEDLOC_EXPAND_3(__VA_ARGS__))))
#define DEDLOC_EXPAND_3(...) \
    DEDLOC_EXPAND_2(DEDLOC_EXPAND_2(DEDLOC_EXPAND_2(DEDLOC_EXPAND_2(__VA_ARGS__))))
#define DEDLOC_EXPAND_2(...) \
    DEDLOC_EXPAND_1(DEDLOC_EXPAND_1(DEDLOC_EXPAND_1(DEDLOC_EXPAND_1(__VA_ARGS__))))
#define DEDLOC_EXPAND_1(...) __VA_ARGS__
#define DEDLOC_NOTHING ()
#define DEDLOC_FOR_EACH(macro, ...) __VA_OPT__(DEDLOC_EXPAND(DEDLOC_FOR_FIRST(macro, __VA_ARGS__)))
#define DEDLOC_FOR_FIRST(macro, first, ...) \
    macro(first) __VA_OPT__(DEDLOC_FOR_NEXT DEDLOC_NOTHING(macro, __VA_ARGS__))
#define DEDLOC_FOR_NEXT() DEDLOC_FOR_FIRST

// Is the item in parentheses, that is with a limit?
#define DEDLOC_IS_PAIR(item) DEDLOC_SECOND(DEDLOC_IS_PAIR_PROBE item, 0, ~)
#define DEDLOC_IS_PAIR_PROBE(...) ~, 1
#define DEDLOC_SECOND(...) DEDLOC_SECOND_(__VA_ARGS__)
#define DEDLOC_SECOND_(first, second, ...) second
#define DEDLOC_JOIN(a, b) DEDLOC_JOIN_(a, b)
#define DEDLOC_JOIN_(a, b) a##b

#define DEDLOC_FIELD(item) DEDLOC_JOIN(DEDLOC_FIELD_, DEDLOC_IS_PAIR(item))(item)
#define DEDLOC_FIELD_0(name) visit(++dedloc_number, self.name);
#define DEDLOC_FIELD_1(pair) DEDLOC_FIELD_LIMITED pair
#define DEDLOC_FIELD_LIMITED(name, most) visit(++dedloc_number, self.name, most);
#define DEDLOC_NAMED_FIELD(name) visit(#name, self.name);

#define DEDLOC_FIELDS(...)                           \
    template <typename Visitor, typename Self>       \
    static void fields(Visitor& visit, Self& self) { \
        std::uint32_t dedloc_number = 0;             \
        DEDLOC_FOR_EACH(DEDLOC_FIELD, __VA_ARGS__)   \
    }
#define DEDLOC_NAMED_FIELDS(...)                         \
    template <typename Visitor, typename Self>           \
    static void fields(Visitor& visit, Self& self) {     \
        DEDLOC_FOR_EACH(DEDLOC_NAMED_FIELD, __VA_ARGS__) \
    }
