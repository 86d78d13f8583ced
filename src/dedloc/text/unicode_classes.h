// Which characters are letters (general category L), numbers (N) and white space: what the patterns
// that part text into words before byte-pair encoding ask.
//
// Source: Unicode 14, as the `tokenizers` package has it. Cost: a search among 650 ranges.
// Thread: any; pure.

#pragma once

namespace dedloc::text {

bool is_letter(char32_t code);
bool is_number(char32_t code);

// The property White_Space.
constexpr bool is_white_space(char32_t code) {
    return (code >= 0x9 && code <= 0xD) || code == 0x20 || code == 0x85 || code == 0xA0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

}  // namespace dedloc::text
