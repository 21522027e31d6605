# SPDX-License-Identifier: GPL-2.0
# bpfprov_cli tests the tool, on programs with and without symbols.

BPFPROVDIR := $(TOOLSDIR)/bpf/bpfprov
BPFPROV_FILES := $(addprefix $(OUTPUT)/,bpfprov bpfprov_cli.stripped bpfprov_cli.debug bpfprov_cli.md5)
TEST_GEN_FILES += $(BPFPROV_FILES)
all: $(BPFPROV_FILES)

$(OUTPUT)/bpfprov: $(wildcard $(BPFPROVDIR)/*.[ch] $(BPFPROVDIR)/Makefile) $(BPFOBJ) $(BPFTOOL)
	$(Q)mkdir -p $(BUILD_DIR)/bpfprov
	$(Q)$(MAKE) -C $(BPFPROVDIR) OUTPUT=$(BUILD_DIR)/bpfprov/ CLANG=$(CLANG) \
		BPFOBJ=$(BPFOBJ) BPF_INCLUDE=$(INCLUDE_DIR) BPFTOOL=$(BPFTOOL)
	$(Q)cp $(BUILD_DIR)/bpfprov/bpfprov $@

# As distributions link: text in a separate segment.
$(OUTPUT)/bpfprov_cli: LDFLAGS += -Wl,-z,separate-code -Wl,--build-id=sha1

# Other distributions have an ID of 16 bytes.
$(OUTPUT)/bpfprov_cli.md5: LDFLAGS += -Wl,--build-id=md5
$(OUTPUT)/bpfprov_cli.md5: $(OUTPUT)/bpfprov_cli.o $(SHARED) $(BPFOBJ)
	$(LINK)

$(OUTPUT)/%.debug: $(OUTPUT)/%
	$(call msg,OBJCOPY,,$@)
	$(Q)$(OBJCOPY) --only-keep-debug $< $@

# With the checksum of the debug file.
$(OUTPUT)/%.stripped: $(OUTPUT)/% $(OUTPUT)/%.debug
	$(call msg,OBJCOPY,,$@)
	$(Q)$(OBJCOPY) --strip-all --add-gnu-debuglink=$(word 2,$^) $< $@
