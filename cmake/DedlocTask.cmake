# dedloc_task(NAME [TORCH stems…] [MODULES modules…] [LIBRARIES packages…])
#
# One folder = one task = one library dedloc_task_NAME with its tests. One source has the line
# DEDLOC_TASK(NAME, …); programs that link the library know the task (tasks/registry.h).
#   TORCH   stems of sources that need libtorch: builds without it leave them out, and the task then
#           has its run file and no learner
#
# dedloc_all_tasks links every task of src/dedloc/tasks/; dedloc_named_tasks the same as a build
# without libtorch would, for the program `dedloc` (peer/trainer_program.h).
function(dedloc_task NAME)
    cmake_parse_arguments(TASK "" "" "TORCH;MODULES;LIBRARIES" ${ARGN})
    if(DEDLOC_TORCH)
        set(compiled PRECOMPILED dedloc_torch_pch)
        set(bridge torch_bridge)
        set(with_torch 1)
    else()
        set(compiled COROUTINES EXCLUDE ${TASK_TORCH})
        set(bridge)
        set(with_torch 0)
    endif()
    dedloc_module(task_${NAME} MODULES tasks ${bridge} ${TASK_MODULES} LIBRARIES ${TASK_LIBRARIES} ${compiled})
    target_compile_definitions(dedloc_task_${NAME} PRIVATE DEDLOC_WITH_TORCH=${with_torch})
    if(DEDLOC_TORCH)
        dedloc_module(named_task_${NAME} LIBRARY_ONLY COROUTINES EXCLUDE ${TASK_TORCH}
                      MODULES tasks ${TASK_MODULES} LIBRARIES ${TASK_LIBRARIES})
        target_compile_definitions(dedloc_named_task_${NAME} PRIVATE DEDLOC_WITH_TORCH=0)
        target_link_options(dedloc_named_task_${NAME} INTERFACE
                            LINKER:--undefined=dedloc_task_${NAME})
    endif()
    # Nothing else of a program may name anything in the archive.
    target_link_options(dedloc_task_${NAME} INTERFACE LINKER:--undefined=dedloc_task_${NAME})
endfunction()
