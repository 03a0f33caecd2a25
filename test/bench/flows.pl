# Opens so many UDP flows to an address, each from a port of its own and with one packet, and prints the
# microseconds that a flow took. Veth and routing hand a packet on within send(2): its time is that of the whole way.
use strict;
use warnings;
use Socket;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($address, $flows) = @ARGV;
socket(my $socket, PF_INET, SOCK_DGRAM, 0) or die "socket: $!";
my $host = inet_aton($address);
my @ports = map { pack_sockaddr_in(1 + $_, $host) } 0 .. $flows - 1;
my $start = clock_gettime(CLOCK_MONOTONIC);
send($socket, 'x', 0, $_) or die "send: $!" for @ports;
printf "%.4f\n", (clock_gettime(CLOCK_MONOTONIC) - $start) * 1e6 / $flows;
