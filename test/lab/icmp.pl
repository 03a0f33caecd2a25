# ICMP echo requests, because Node.js has no raw sockets, and every Debian has perl (perl-base is essential).
#   perl icmp.pl send    reads lines "NUMBER ADDRESS", and sends the address an echo request that carries the number
#   perl icmp.pl listen  prints a line "NUMBER SOURCE" for each echo request that arrives
use strict;
use warnings;
use Socket qw(:DEFAULT inet_ntop inet_pton pack_sockaddr_in6 unpack_sockaddr_in6);

my $MAGIC = 'ip-masq';
my ($ECHO, $ECHO6) = (8, 128);    # RFC 792, RFC 4443
my ($ICMP, $ICMP6) = (1, 58);

$| = 1;
socket(my $v4, AF_INET, SOCK_RAW, $ICMP) or die "no raw socket for IPv4: $!\n";
socket(my $v6, AF_INET6, SOCK_RAW, $ICMP6) or die "no raw socket for IPv6: $!\n";
$ARGV[0] eq 'send' ? send_all() : listen_on();

sub send_all {
  while (my $line = <STDIN>) {
    my ($number, $address) = split ' ', $line;
    my ($socket, $to, $request) = $address =~ /:/
      # The kernel fills in the checksum of ICMPv6 (RFC 3542 section 3.1), not that of ICMP.
      ? ($v6, pack_sockaddr_in6(0, inet_pton(AF_INET6, $address)), echo($ECHO6, 0, $number))
      : ($v4, pack_sockaddr_in(0, inet_pton(AF_INET, $address)), echo($ECHO, checksum(echo($ECHO, 0, $number)), $number));
    defined send($socket, $request, 0, $to) or die "cannot send to $address: $!\n";
  }
}

sub listen_on {
  print "ready\n";
  my $both = '';
  vec($both, fileno $_, 1) = 1 for $v4, $v6;
  while (select(my $readable = $both, undef, undef, undef) > 0) {
    if (vec($readable, fileno $v4, 1)) {
      my $from = recv($v4, my $packet, 2048, 0);
      my $header = 4 * (ord($packet) & 15);
      report(AF_INET, $ECHO, substr($packet, $header), (unpack_sockaddr_in($from))[1]);
    }
    if (vec($readable, fileno $v6, 1)) {
      my $from = recv($v6, my $packet, 2048, 0);
      report(AF_INET6, $ECHO6, $packet, (unpack_sockaddr_in6($from))[1]);
    }
  }
}

# The number is also the identifier: conntrack takes equal ones for one flow.
sub echo {
  my ($type, $checksum, $number) = @_;
  return pack 'C2 n3 a7 x N', $type, 0, $checksum, $number & 0xffff, 1, $MAGIC, $number;
}

sub report {
  my ($family, $wanted, $message, $source) = @_;
  return if length $message < 20;
  my ($type, $magic, $number) = unpack 'C x7 a7 x N', $message;
  print "$number ", inet_ntop($family, $source), "\n" if $type == $wanted && $magic eq $MAGIC;
}

sub checksum {
  my $sum = 0;
  $sum += $_ for unpack 'n*', shift;
  $sum = ($sum >> 16) + ($sum & 0xffff) while $sum >> 16;
  return ~$sum & 0xffff;
}
