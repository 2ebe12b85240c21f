# SPDX-License-Identifier: GPL-2.0-only
#
# Finds out by trial compilation which interfaces the kernel has that a module is built for. Version
# numbers do not tell: distributions take changes of newer kernels into older ones.
#
# A Kbuild file sets vrdma-probes to the names of snippets, and includes this. Objects of the module
# are then built after $(obj)/probed.h, which defines VRDMA_HAVE_<NAME> as 1 or 0 for each of them.
vrdma-compat := $(VRDMA_INCLUDE)/../compat
vrdma-results := $(patsubst %,probed/%.h,$(vrdma-probes))

# Warnings that tell the two forms apart are errors; other warnings are not. An unnamed struct
# within another one shows whether it has a member: see the snippets.
quiet_cmd_vrdma_probe = PROBE   $(basename $(notdir $@))
      cmd_vrdma_probe = $(CONFIG_SHELL) $(vrdma-compat)/probe $< $@ \
			$(CC) $(filter-out -Wp% -Werror,$(c_flags)) -DMODULE -fms-extensions \
			-Werror=implicit-function-declaration -Werror=incompatible-pointer-types

$(addprefix $(obj)/,$(vrdma-results)): $(obj)/probed/%.h: $(vrdma-compat)/probes/%.c \
		$(vrdma-compat)/probe FORCE
	$(call if_changed,vrdma_probe)

quiet_cmd_vrdma_probed = GEN     $@
      cmd_vrdma_probed = cat $(filter %.h,$^) > $@

$(obj)/probed.h: $(addprefix $(obj)/,$(vrdma-results)) FORCE
	$(call if_changed,vrdma_probed)

$(foreach object,$(obj-m),$(addprefix $(obj)/,$($(object:.o=-y)))): $(obj)/probed.h

ccflags-y += -I$(VRDMA_INCLUDE) -I$(vrdma-compat) -I$(obj)
targets += $(vrdma-results) probed.h
clean-files += probed probed.h
