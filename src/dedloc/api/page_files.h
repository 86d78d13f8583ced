// The files of the page to type in, compiled in from src/dedloc/api/page/.
//
// Thread: any.

#pragma once
#include "dedloc/web/page_files.h"

namespace dedloc::api {

std::span<const web::PageFile> page_files();

}  // namespace dedloc::api
