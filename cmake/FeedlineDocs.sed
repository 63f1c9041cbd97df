# What Doxygen reads instead of a file; each line keeps its number.
# It knows neither inline namespaces in one line nor links within a page of Markdown.
s/^namespace feedline::inline FEEDLINE_ABI/namespace feedline/
s/\[\([^]]*\)\](#[a-z-]*)/\1/g

# It would end the comment at the pattern `**/`.
/^ *\/\/\//s/\*\*\//**\&zwj;\//g

# The labels of a doc block become headings of paragraphs (see ALIASES).
s/^\( *\/\/\/ *\)\(Takes\|Gives\|Order\|Skips\|Throws\|Stops\|Example\): */\1@label{\2} /
/^ *\/\/\/ @label/,/^ *\(\/\/\/ \{1,8\}[^ @]\|[^ \/]\)/ s/^\( *\/\/\/ \)         /\1/

# Members that only implement a contract, which its concept documents.
/^ *\/\/ Called by the run\.$/,/^ private:/ { /^ private:/!s/.*// }
/^  static constexpr source_traits traits{.*};/s/.*//
/^ *using feedline_[a-z_]* = void;/s/.*//
/^ *friend .*operator\(==\|<=>\)(.*= default;/s/.*//

# Members that the standard library explains.
/^  using \(value_type\|iterator\|result_type\) = [^/]*$/s/.*//
/^ *\(constexpr \)\?\(const \)\?[A-Za-z_:]*\*\? \?\(end\|operator->\)() .*{.*}$/s/.*//
/^  [a-z_]*([a-z_]*&&) noexcept = default;$/s/.*//
/^  [a-z_]*& operator=(\(const \)\?[a-z_]*&&\?) noexcept \(= default;\|{ return \*this; }\)$/s/.*//
s/^  \([a-z_]*\)(\(const \1&\|\1&&\))\( noexcept\)\?;$//
s/^  \([a-z_]*\)& operator=(\(const \1&\|\1&&\))\( noexcept\)\?;$//
s/^  \(virtual \)\?~[a-z_]*()\( override\)\?;$//

# Deduction guides.
/^template <class From>$/{N;/\n[a-z_]*(.*) -> /s/[^\n]*//g;}
