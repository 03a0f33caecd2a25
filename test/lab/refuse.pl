# Runs a program for which the kernel refuses netlink sockets of one protocol, as a seccomp profile does, or fsync(2), as a disk
# does that fails, or lets fsync(2) wait for ever, as a disk does that hangs:
# perl refuse.pl PROTOCOL|fsync ERRNO|hang PROGRAM ARGUMENT...
use strict;
use warnings;
use Fcntl qw(F_SETFD);
use POSIX qw(uname);

# asm/unistd.h, linux/prctl.h, linux/seccomp.h, linux/bpf_common.h and linux/netlink.h
my ($seccomp, $socket, $fsync) = (uname())[4] eq 'aarch64' ? (277, 198, 82) : (317, 41, 74);
use constant { SET_MODE_FILTER => 1, FLAG_NEW_LISTENER => 8 };
use constant { RET_ERRNO => 0x00050000, RET_USER_NOTIF => 0x7fc00000, RET_ALLOW => 0x7fff0000 };
use constant { LOAD => 0x20, JUMP_IF_EQUAL => 0x15, RETURN => 0x06, AF_NETLINK => 16 };

my ($protocol, $errno, @command) = @ARGV;
# Where struct seccomp_data has the number of the system call, and its first and third argument.
my $hangs = $errno eq 'hang';
my $refusal = $hangs ? RET_USER_NOTIF : RET_ERRNO | $errno;
my @program = $protocol eq 'fsync' ? (
    [LOAD, 0, 0, 0], [JUMP_IF_EQUAL, 0, 1, $fsync],
    [RETURN, 0, 0, $refusal], [RETURN, 0, 0, RET_ALLOW],
) : (
    [LOAD, 0, 0, 0], [JUMP_IF_EQUAL, 0, 5, $socket],
    [LOAD, 0, 0, 16], [JUMP_IF_EQUAL, 0, 3, AF_NETLINK],
    [LOAD, 0, 0, 32], [JUMP_IF_EQUAL, 0, 1, $protocol],
    [RETURN, 0, 0, $refusal], [RETURN, 0, 0, RET_ALLOW],
);
my $filter = join('', map { pack('SCCL', @$_) } @program);
my $header = pack('Sx6P', scalar @program, $filter);
my $listener = syscall($seccomp, SET_MODE_FILTER, $hangs ? FLAG_NEW_LISTENER : 0, $header);
die "seccomp: $!" if $listener < 0;
# The program itself keeps the listener, and never answers.
if ($hangs) {
    open(our $handle, '+<&=', $listener) or die "open: $!";
    fcntl($handle, F_SETFD, 0) or die "fcntl: $!";
}
exec { $command[0] } @command or die "$command[0]: $!";
