#!/bin/sh
# nc of the pods of Kubernetes' own tests: `nc FLAG… HOST PORT`. The cluster has no DNS, and the address of a service that
# was there before its pod is in the environment too: MY_SERVICE_SERVICE_HOST of my-service.
for word in "$@"; do host=$last last=$word; done
name=$(echo "$host" | tr a-z- A-Z_)_SERVICE_HOST
case $host in
*[!a-z0-9-]* | [0-9]*) exec nc.openbsd "$@" ;;
esac
address=
eval "address=\$$name"
for word in "$@"; do
  shift
  [ "$word" = "$host" ] && word=$address
  set -- "$@" "$word"
done
exec nc.openbsd "$@"
