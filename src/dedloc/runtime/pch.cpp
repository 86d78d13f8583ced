#include "dedloc/runtime/pch.h"
