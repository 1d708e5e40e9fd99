use IO::Socket::INET; use IO::Socket::UNIX; use IO::Select;
my $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>'127.0.0.1',Proto=>'tcp') or die $!; my $p=$s->sockport;
if(!fork){my $c=IO::Socket::INET->new(PeerAddr=>"127.0.0.1:$p") or die $!; print $c "line one\nline two\n"; shutdown($c,1); print "client got: $_" while <$c>; exit 3}
my $c=$s->accept; my @l=<$c>; print "server got $_" for @l; print $c "ack ".scalar(@l)."\n"; close $c; wait; print $?>>8,"\n";
my $sel=IO::Select->new($s); print scalar($sel->can_read(0.1)),"\n";
