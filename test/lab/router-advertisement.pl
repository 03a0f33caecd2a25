# One router advertisement (RFC 4861) of a default route, because Node.js has no raw sockets: perl router-advertisement.pl LINK-INDEX
use strict;
use warnings;
use Socket qw(:DEFAULT inet_pton pack_sockaddr_in6);

my ($ICMP6, $IPPROTO_IPV6, $IPV6_MULTICAST_IF, $IPV6_MULTICAST_HOPS) = (58, 41, 17, 18);
my ($link) = @ARGV;

socket(my $socket, AF_INET6, SOCK_RAW, $ICMP6) or die "no raw socket: $!\n";
setsockopt($socket, $IPPROTO_IPV6, $IPV6_MULTICAST_IF, pack 'i', $link) or die "$!\n";
setsockopt($socket, $IPPROTO_IPV6, $IPV6_MULTICAST_HOPS, pack 'i', 255) or die "$!\n";
# The type, a hop limit of 64, and a lifetime of half an hour; the kernel fills in the checksum.
my $advertisement = pack 'C2 n C2 n N2', 134, 0, 0, 64, 0, 1800, 0, 0;
defined send($socket, $advertisement, 0, pack_sockaddr_in6(0, inet_pton(AF_INET6, 'ff02::1'), $link)) or die "$!\n";
