# Runs a program for which the kernel refuses netlink sockets of one protocol, as a seccomp profile does, or fsync(2), as a disk
# does that fails: perl refuse.pl PROTOCOL|fsync ERRNO PROGRAM ARGUMENT...
use strict;
use warnings;
use POSIX qw(uname);

# asm/unistd.h, linux/prctl.h, linux/seccomp.h, linux/bpf_common.h and linux/netlink.h
my ($prctl, $socket, $fsync) = (uname())[4] eq 'aarch64' ? (167, 198, 82) : (157, 41, 74);
use constant { PR_SET_SECCOMP => 22, SECCOMP_MODE_FILTER => 2, RET_ERRNO => 0x00050000, RET_ALLOW => 0x7fff0000 };
use constant { LOAD => 0x20, JUMP_IF_EQUAL => 0x15, RETURN => 0x06, AF_NETLINK => 16 };

my ($protocol, $errno, @command) = @ARGV;
# Where struct seccomp_data has the number of the system call, and its first and third argument.
my @program = $protocol eq 'fsync' ? (
    [LOAD, 0, 0, 0], [JUMP_IF_EQUAL, 0, 1, $fsync],
    [RETURN, 0, 0, RET_ERRNO | $errno], [RETURN, 0, 0, RET_ALLOW],
) : (
    [LOAD, 0, 0, 0], [JUMP_IF_EQUAL, 0, 5, $socket],
    [LOAD, 0, 0, 16], [JUMP_IF_EQUAL, 0, 3, AF_NETLINK],
    [LOAD, 0, 0, 32], [JUMP_IF_EQUAL, 0, 1, $protocol],
    [RETURN, 0, 0, RET_ERRNO | $errno], [RETURN, 0, 0, RET_ALLOW],
);
my $filter = join('', map { pack('SCCL', @$_) } @program);
my $header = pack('Sx6P', scalar @program, $filter);
syscall($prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, $header, 0, 0) == 0 or die "prctl: $!";
exec { $command[0] } @command or die "$command[0]: $!";
