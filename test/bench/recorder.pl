#!/usr/bin/perl
# Stands under the name of a tool in a directory that comes first in PATH: notes the call, as calls.pl reads it, as a
# line of the file `calls` in that directory, and becomes the tool.
use strict;
use warnings;
use JSON::PP;

my ($dir, $name) = $0 =~ m{^(.*)/([^/]+)$} or die "no directory in $0";
my $input = do { local $/; <STDIN> } // '';
open(my $calls, '>>', "$dir/calls") or die "calls: $!";
syswrite $calls, encode_json({ command => [$name, @ARGV], input => $input }) . "\n";

open(my $copy, '+>', undef) or die "copy: $!";
print $copy $input;
seek $copy, 0, 0;
open(STDIN, '<&', $copy) or die "stdin: $!";
$ENV{PATH} =~ s/^\Q$dir\E://;
exec { $name } $name, @ARGV or die "$name: $!";
