#include "dedloc/base/pch.h"
