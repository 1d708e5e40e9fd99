#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node { struct node *left, *right; char word[32]; unsigned count; };

static struct node *add(struct node *n, const char *word) {
    if (!n) {
        n = calloc(1, sizeof *n);
        strncpy(n->word, word, sizeof n->word - 1);
        n->count = 1;
        return n;
    }
    int order = strcmp(word, n->word);
    if (order < 0) n->left = add(n->left, word);
    else if (order > 0) n->right = add(n->right, word);
    else n->count++;
    return n;
}

static double entropy(const struct node *n, double total) {
    if (!n) return 0;
    double p = n->count / total;
    return -p * log2(p) + entropy(n->left, total) + entropy(n->right, total);
}

int main(void) {
    struct node *root = NULL;
    char word[32];
    double total = 0;
    while (scanf("%31s", word) == 1) {
        for (char *c = word; *c; c++) *c = (char)tolower((unsigned char)*c);
        root = add(root, word);
        total++;
    }
    printf("%.6f\n", entropy(root, total));
    return 0;
}
