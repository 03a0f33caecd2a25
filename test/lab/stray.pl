# TCP packets that belong to no connection, and connections that do nothing until they end, because Node.js has no raw
# sockets, and its processes take long to start.
#   perl stray.pl send FLAGS SOURCE  reads addresses, and sends each a packet with these flags (4 RST, 17 FIN and ACK)
#   perl stray.pl hold PORT          reads addresses up to an empty line, connects to each, prints a line, and closes all
#                                    connections when its input ends
use strict;
use warnings;
use Socket qw(:DEFAULT inet_pton pack_sockaddr_in6);

my ($TCP, $SOURCE_PORT, $DISCARD) = (6, 30_000, 9);
$| = 1;
$ARGV[0] eq 'send' ? send_all($ARGV[1], $ARGV[2]) : hold($ARGV[1]);

sub to_address {
  my ($address, $port) = @_;
  return $address =~ /:/
    ? (AF_INET6, inet_pton(AF_INET6, $address), pack_sockaddr_in6($port, inet_pton(AF_INET6, $address)))
    : (AF_INET, inet_pton(AF_INET, $address), pack_sockaddr_in($port, inet_pton(AF_INET, $address)));
}

sub send_all {
  my ($flags, $source) = @_;
  my ($family, $from, $local) = to_address($source, 0);
  socket(my $socket, $family, SOCK_RAW, $TCP) or die "no raw socket: $!\n";
  bind($socket, $local) or die "cannot bind to $source: $!\n";
  while (my $address = <STDIN>) {
    chomp $address;
    my (undef, $to, $remote) = to_address($address, 0);
    # RFC 9293 section 3.1: ports, sequence, acknowledgement, offset, flags, window, checksum, urgent pointer.
    my $header = sub { pack 'nnNNCCnnn', $SOURCE_PORT, $DISCARD, 1, 1, 0x50, $flags, 512, $_[0], 0 };
    my $pseudo = $family == AF_INET ? pack('a*a*xCn', $from, $to, $TCP, 20) : pack('a*a*NxxxC', $from, $to, 20, $TCP);
    my $packet = $header->(checksum($pseudo . $header->(0)));
    defined send($socket, $packet, 0, $remote) or die "cannot send to $address: $!\n";
  }
}

# RFC 1071.
sub checksum {
  my $sum = 0;
  $sum += $_ for unpack 'n*', $_[0];
  $sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
  return ~$sum & 0xffff;
}

sub hold {
  my ($port) = @_;
  my @held;
  while (my $address = <STDIN>) {
    chomp $address;
    last if $address eq '';
    my ($family, undef, $remote) = to_address($address, $port);
    socket(my $socket, $family, SOCK_STREAM, $TCP) or die "no socket: $!\n";
    connect($socket, $remote) or die "cannot connect to $address: $!\n";
    push @held, $socket;
  }
  print "open\n";
  1 while <STDIN>;
}
