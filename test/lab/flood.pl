# Sends UDP packets to addresses in turn, as fast as it can, until it is killed. Node.js sends a tenth as many.
#   perl flood.pl PORT ADDRESS...
use strict;
use warnings;
use Socket qw(:DEFAULT inet_pton pack_sockaddr_in6);

my ($port, @addresses) = @ARGV;
socket(my $ipv4, AF_INET, SOCK_DGRAM, 0) or die "no socket: $!\n";
socket(my $ipv6, AF_INET6, SOCK_DGRAM, 0);
my @targets = map {
  /:/ ? [$ipv6, pack_sockaddr_in6($port, inet_pton(AF_INET6, $_))] : [$ipv4, pack_sockaddr_in($port, inet_aton($_))]
} @addresses;
while (1) {
  send($_->[0], 'x', 0, $_->[1]) for @targets;
}
