# numa_migrate: the extension proper, built with PGXS.
# "make demo" and "make check" live in GNUmakefile, which GNU make reads first
# and which hands every other target on to this file.

EXTENSION = numa_migrate
MODULE_big = numa_migrate
PGFILEDESC = "numa_migrate - NUMA-aware in-memory B+-tree and page migration"

# Rooms without PostgreSQL headers also compile into plain C programs.
CORE_SRCS = src/port.c src/topology.c \
	$(wildcard src/pool/*.c) $(wildcard src/btree/*.c) $(wildcard src/mover/*.c) \
	$(wildcard src/postcopy/*.c)
PG_SRCS = src/numa_migrate.c src/guc.c src/stop.c $(wildcard src/sql_*.c) \
	$(wildcard src/am/*.c) $(wildcard src/migrator/*.c)
SRCS = $(sort $(CORE_SRCS) $(PG_SRCS))
OBJS = $(SRCS:.c=.o)

DATA = numa_migrate--1.0.sql

REGRESS = $(sort $(patsubst sql/%.sql,%,$(wildcard sql/*.sql)))
ISOLATION = $(sort $(patsubst specs/%.spec,%,$(wildcard specs/*.spec)))
TAP_TESTS = 1

PG_CPPFLAGS = -DNM_IN_POSTGRES -I$(srcdir)/src -I$(srcdir)/kernel/uapi
# Assertions of the tree and the pool: "make NM_DEBUG=1".
ifdef NM_DEBUG
PG_CPPFLAGS += -DNM_DEBUG
endif
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -Wno-declaration-after-statement
# "make WERROR=1" is what the checks use.
ifdef WERROR
PG_CFLAGS += -Werror
endif

# Bitcode for JIT inlining is of no use to an index and needs clang.
override with_llvm = no

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(OBJS): $(wildcard src/*.h src/*/*.h kernel/uapi/*.h)
