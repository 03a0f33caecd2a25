#!/usr/bin/perl
# Stands, under the name of a tool, in a directory of its own that comes first in PATH: notes down how it was called, in
# the form that calls.pl reads, in the file `calls` of that directory, and becomes the tool.
use strict;
use warnings;

my ($dir, $name) = $0 =~ m{^(.*)/([^/]+)$} or die "no directory in $0";
my $tool;
for (split /:/, $ENV{PATH}) {
    next if $_ eq $dir;
    if (-x "$_/$name") { $tool = "$_/$name"; last }
}
# As if it were not there at all.
exit 127 if !defined $tool;

my $input = do { local $/; <STDIN> } // '';
open(my $calls, '>>', "$dir/calls") or die "calls: $!";
syswrite $calls, join('', map { "$_\x1f" } $input, $name, @ARGV) . "\x1e";
close $calls;

open(my $copy, '+>', undef) or die "copy: $!";
print $copy $input;
seek $copy, 0, 0;
open(STDIN, '<&', $copy) or die "stdin: $!";
exec { $tool } $name, @ARGV or die "$tool: $!";
