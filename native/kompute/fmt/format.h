// fmt::format as far as Kompute 0.9.0 uses it: with its log compiled out, one error message is left
// (kp::Algorithm::setPushConstants), which puts two integers in the place of two "{}". fmt itself would be a library
// that every build needs for this line alone.
#pragma once

#include <cstddef>
#include <cstdint> // for Kompute's headers, which expect it of fmt's
#include <sstream>
#include <string>
#include <string_view>

namespace fmt {

template <typename... Values> std::string format(std::string_view pattern, const Values&... values) {
    std::ostringstream text;
    auto write = [&](const auto& value) {
        const std::size_t place = pattern.find("{}");
        text << pattern.substr(0, place) << value;
        pattern.remove_prefix(place + 2);
    };
    (write(values), ...);
    text << pattern;
    return text.str();
}

} // namespace fmt
