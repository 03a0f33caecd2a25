# Stands in for kubectl. In the directory that KUBECTL_ANSWERS names, the files `nodes` and `pods` are what it lists, and those of a
# directory for each pod what `exec` in it does: COMMAND.json is the output, COMMAND.code or `code` the exit code, `stderr` the other
# output, `wait` the seconds before it, `bytes` how many bytes come first. With `refused`, kubectl itself fails. Each call is a line
# in `calls`; what exec passes on is in `stdin` of the pod. The files `version` and, of a pod, `log` and `log-previous` are printed too.
use strict;
use warnings;
my $answers = $ENV{KUBECTL_ANSWERS};

sub text {
    my ($path, $default) = @_;
    open(my $file, '<', "$answers/$path") or return $default;
    local $/;
    return scalar <$file>;
}

open(my $calls, '>>', "$answers/calls") or die;
syswrite($calls, join(' ', @ARGV) . "\n");
my @words = grep { !/^--(?:namespace|context)=/ } @ARGV;
if ($words[0] eq 'get') {
    print STDERR text('stderr', '');
    print text($words[1], '');
    exit text('code', 0);
}
if ($words[0] eq 'version') { print text('version', ''); exit }
my ($pod) = $words[1] =~ m{^pod/(.*)};
if ($words[0] eq 'logs') {
    my $log = text($pod . (grep({ $_ eq '--previous' } @words) ? '/log-previous' : '/log'), undef);
    print $log if defined $log;
    exit 0 if defined $log;
    print STDERR "Error from server (BadRequest): no such container\n";
    exit 1;
}
if (grep { $_ eq '--stdin' } @words) {
    open(my $given, '>', "$answers/$pod/stdin") or die;
    print $given $_ while <STDIN>;
    close($given);
    @words = grep { $_ ne '--stdin' } @words;
}
my ($command) = grep { /^[a-z]/ } @words[5 .. $#words];
select(undef, undef, undef, text("$pod/wait", 0));
my $bytes = text("$pod/bytes", 0);
print 'x' x 65536 for 1 .. $bytes / 65536;
print text("$pod/$command.json", '');
print STDERR text("$pod/stderr", '');
my $code = text("$pod/$command.code", text("$pod/code", 0));
print STDERR "command terminated with exit code $code\n" if $code && !-e "$answers/$pod/refused";
exit $code;
