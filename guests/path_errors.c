// What paths may be.
// calls: openat mkdir
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char name[300], path[5000];
    memset(name, 'n', sizeof name - 1), name[sizeof name - 1] = 0;
    FAILS(ENAMETOOLONG, open(name, O_CREAT | O_WRONLY, 0600));
    memset(path, '/', sizeof path - 1), path[sizeof path - 1] = 0;
    FAILS(ENAMETOOLONG, open(path, O_RDONLY));
    FAILS(ENOENT, open("", O_RDONLY));
    FAILS(EFAULT, open((char *)8, O_RDONLY));
    name[255] = 0;
    put_file(name, "longest");
    GUEST_POINT();
    SAY("%s", get_file(name));
    for (int i = 0; i < 60; i++) CHECK(mkdir("deep", 0700) == 0 && chdir("deep") == 0);
    put_file("f", "60 directories deep");
    SAY("%s", get_file("f"));
    put_file("\xff\xfe odd\nname", "odd");
    SAY("%s", get_file("\xff\xfe odd\nname"));
    FAILS(EEXIST, mkdir("f", 0700));
    FAILS(EEXIST, mkdir("/", 0700));
    SUCCESS();
}
