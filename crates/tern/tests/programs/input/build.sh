# A C project, built by make with four jobs.
set -e
mkdir -p project && cd project
for i in 1 2 3 4 5 6 7 8; do echo "int f$i(int x) { return x * $i; }" > "f$i.c"; done
cat > main.c <<'END'
#include <stdio.h>
int f1(int), f8(int);
int main(void) { printf("%d %d\n", f1(3), f8(3)); return 0; }
END
cat > Makefile <<'END'
program: $(patsubst %.c,%.o,$(wildcard *.c))
	gcc -o $@ $^
%.o: %.c
	@gcc -O1 -c $< -o $@
END
make -s -j4 >/dev/null
./program
rm -f *.o program
