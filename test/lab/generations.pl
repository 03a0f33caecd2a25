# Prints a line for each generation of the rules that nf_tables commits in this network namespace: the seconds of
# CLOCK_MONOTONIC when the kernel told of it, and the process that asked for it. An empty line says that it listens.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

# linux/netlink.h, linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h
use constant { AF_NETLINK => 16, SOCK_RAW => 3, NETLINK_NETFILTER => 12, GROUP_NFTABLES => 1 << 6 };
use constant { SOL_SOCKET => 1, SO_RCVBUFFORCE => 33, NFT_MSG_NEWGEN => (10 << 8) | 15, NFTA_GEN_PROC_NAME => 3 };
use constant { HEADER => 16, FAMILY_HEADER => 4 };

$| = 1;
socket(my $socket, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER) or die "socket: $!";
# A transaction of many rules is told of rule by rule; without the right to force it the usual size must do.
setsockopt($socket, SOL_SOCKET, SO_RCVBUFFORCE, pack('i', 64 << 20));
bind($socket, pack('SSLL', AF_NETLINK, 0, 0, GROUP_NFTABLES)) or die "bind: $!";
print "\n";
while (1) {
    defined recv($socket, my $messages, 1 << 20, 0) or die "the kernel has told of more than fits: $!";
    my $now = clock_gettime(CLOCK_MONOTONIC);
    while (length($messages) >= HEADER) {
        my ($length, $type) = unpack('LS', $messages);
        printf "%.6f %s\n", $now, process_of(substr($messages, HEADER + FAMILY_HEADER, $length - HEADER - FAMILY_HEADER))
            if $type == NFT_MSG_NEWGEN;
        substr($messages, 0, aligned($length)) = '';
    }
}

sub process_of {
    my ($attributes) = @_;
    while (length($attributes) >= 4) {
        my ($length, $type) = unpack('SS', $attributes);
        return unpack('Z*', substr($attributes, 4, $length - 4)) if $type == NFTA_GEN_PROC_NAME;
        last if $length < 4;
        substr($attributes, 0, aligned($length)) = '';
    }
    return '?';
}

sub aligned {
    my ($length) = @_;
    return ($length + 3) & ~3;
}
