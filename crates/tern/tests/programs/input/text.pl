use strict;
use warnings;
use Fcntl qw(:flock SEEK_SET);

# Reads, splits, sorts and rewrites a file; formats, regular expressions, local time, sprintf.
my %seen;
open(my $in, '<', 'words') or die "words: $!";
while (<$in>) {
    chomp;
    $seen{$1}++ while /(\w+)/g;
}
close $in;
open(my $out, '+>', 'report') or die "report: $!";
flock($out, LOCK_EX) or die "flock: $!";
printf $out "%-12s %5d\n", $_, $seen{$_} for sort { $seen{$b} <=> $seen{$a} || $a cmp $b } keys %seen;
seek($out, 0, SEEK_SET);
print scalar(<$out>) for 1 .. 10;
my @numbers = map { $_ ** 2 % 97 } 1 .. 50;
print join(',', sort { $a <=> $b } @numbers), "\n";
print "$0 @ARGV ", scalar(gmtime(86400 * 365)), "\n";
warn "to standard error\n";
exit 5;
