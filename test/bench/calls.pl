# Runs a list of programs, one after the other, so many rounds: the plainest script of tool calls, without a shell.
# Standard input: JSON, a list of {command, input}. Argument: the rounds. Prints for each round: seconds of
# CLOCK_MONOTONIC at its start, microseconds that it took, microseconds of CPU that the programs used, and KiB that the
# largest program so far was resident, which is never less than this script itself.
use strict;
use warnings;
use JSON::PP;
use POSIX qw(uname);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

# perl itself has no getrusage(2), and `times` counts in hundredths of a second.
use constant { RUSAGE_CHILDREN => -1, RUSAGE_BYTES => 144 };
my $GETRUSAGE = (uname())[4] eq 'aarch64' ? 165 : 98;

my $calls = decode_json(do { local $/; <STDIN> });
my ($cpu) = usage();
for (1 .. $ARGV[0]) {
    my $start = clock_gettime(CLOCK_MONOTONIC);
    call($_->{input}, @{ $_->{command} }) for @$calls;
    my $took = clock_gettime(CLOCK_MONOTONIC) - $start;
    my ($before, $peak) = $cpu;
    ($cpu, $peak) = usage();
    printf "%.6f %.1f %.1f %d\n", $start, $took * 1e6, $cpu - $before, $peak;
}

sub call {
    my ($input, @command) = @_;
    pipe(my $read, my $write) or die "pipe: $!";
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        close $write;
        open(STDIN, '<&', $read) or die "stdin: $!";
        open($_, '>', '/dev/null') or die "null: $!" for (\*STDOUT, \*STDERR);
        exec { $command[0] } @command or exit 127;
    }
    close $read;
    local $SIG{PIPE} = 'IGNORE';
    print $write $input;
    close $write;
    waitpid($pid, 0);
    # 1 is an answer, such as that of `iptables -N` for a chain that exists.
    die "@command ended with $?" if $? & 127 || $? >> 8 > 1;
}

# Of all programs that have ended: microseconds of CPU, and KiB of the largest.
sub usage {
    my $usage = "\0" x RUSAGE_BYTES;
    syscall($GETRUSAGE, RUSAGE_CHILDREN, $usage) == 0 or die "getrusage: $!";
    my ($user, $user_micros, $system, $system_micros, $peak) = unpack('q5', $usage);
    return (($user + $system) * 1e6 + $user_micros + $system_micros, $peak);
}
