# Writes OUTPUT, a source that holds the page's FILES (src/dedloc/web/page_files.h), as
# dedloc::MODULE::page_files(): at a build, by cmake -P.
set(arrays "")
set(entries "")
set(number 0)
foreach(path IN LISTS FILES)
    get_filename_component(name ${path} NAME)
    file(READ ${path} hex HEX)
    string(LENGTH "${hex}" digits)
    math(EXPR size "${digits} / 2")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${hex}")
    string(APPEND arrays "constexpr char bytes_${number}[] = \"${bytes}\";\n")
    string(APPEND entries "    {\"${name}\", {bytes_${number}, ${size}}},\n")
    math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT}
     "#include \"dedloc/${MODULE}/page_files.h\"\n\nnamespace dedloc::${MODULE} {\nnamespace {\n\n${arrays}\n"
     "constexpr web::PageFile files[] = {\n${entries}};\n\n}  // namespace\n\n"
     "std::span<const web::PageFile> page_files() { return files; }\n\n}  // namespace dedloc::${MODULE}\n")
