# Reads addresses, and sends each an ICMP echo request, because Node.js has no raw sockets, and every Debian has perl (perl-base is
# essential).
use strict;
use warnings;
use Socket qw(:DEFAULT inet_pton pack_sockaddr_in6);

my ($ECHO, $ECHO6) = (8, 128);    # RFC 792, RFC 4443
my ($ICMP, $ICMP6) = (1, 58);

socket(my $v4, AF_INET, SOCK_RAW, $ICMP) or die "no raw socket for IPv4: $!\n";
socket(my $v6, AF_INET6, SOCK_RAW, $ICMP6) or die "no raw socket for IPv6: $!\n";
while (my $address = <STDIN>) {
  chomp $address;
  my ($socket, $to, $request) = $address =~ /:/
    # The kernel fills in the checksum of ICMPv6 (RFC 3542 section 3.1), not that of ICMP.
    ? ($v6, pack_sockaddr_in6(0, inet_pton(AF_INET6, $address)), echo($ECHO6, 0))
    : ($v4, pack_sockaddr_in(0, inet_pton(AF_INET, $address)), echo($ECHO, checksum(echo($ECHO, 0))));
  defined send($socket, $request, 0, $to) or die "cannot send to $address: $!\n";
}

# The number of the line is the identifier: conntrack takes requests with equal ones to one address for one flow.
sub echo {
  my ($type, $checksum) = @_;
  return pack 'C2 n3', $type, 0, $checksum, $., 1;
}

sub checksum {
  my $sum = 0;
  $sum += $_ for unpack 'n*', shift;
  $sum = ($sum >> 16) + ($sum & 0xffff) while $sum >> 16;
  return ~$sum & 0xffff;
}
