import type { Args, Commands } from './command.ts';
import { EXIT, UsageError } from './exit.ts';
import { type Flag, type FlagTable, spellings } from './flag-table.ts';
import { FLAGS } from './flags.ts';
import { print } from './print.ts';

export async function completion({ operands: [shell = ''] }: Args, commands: Commands): Promise<number> {
  if (shell !== 'bash' && shell !== 'zsh') throw new UsageError('completion is for bash or zsh');
  print(completionScript(shell, commands));
  return EXIT.ok;
}

type Shell = 'bash' | 'zsh';

/** A script that completes commands, their flags and the values of the flags. */
export function completionScript(shell: Shell, commands: Commands): string {
  const head = shell === 'zsh' ? '#compdef ip-masq-agent\n' : '';
  return `${head}# Completion of ip-masq-agent, made by: ip-masq-agent completion ${shell}

# Arguments: the command, the previous word, and the current word as typed so far.
_ip_masq_agent_complete() {
  case $1:$2 in
${valueCases(commands).join('\n')}
  esac
  case $1:$3 in
${flagCases(commands).join('\n')}
  esac
  case $1 in
    run|help) _ip_masq_agent_words ${Object.keys(commands).join(' ')} ;;
    completion) _ip_masq_agent_words bash zsh ;;
    fleet) _ip_masq_agent_words status doctor diff explain ;;
    check) _ip_masq_agent_files ;;
  esac
}

# Prints the first argument that is a command.
_ip_masq_agent_command() {
  local word
  for word in "$@"; do
    case $word in
      ${Object.keys(commands).join('|')}) echo "$word"; return ;;
    esac
  done
  echo run
}

${GLUE[shell]}`;
}

/** How each shell passes the words and takes the completions; see bash(1) and zshcompsys(1). */
const GLUE: Readonly<Record<Shell, string>> = {
  bash: `_ip_masq_agent_words() { COMPREPLY=($(compgen -W "$*" -- "$current")); }
_ip_masq_agent_files() { mapfile -t COMPREPLY < <(compgen -f -- "$current"); }
_ip_masq_agent() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  # In bash, an equals sign is a separate word.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=\${COMP_WORDS[COMP_CWORD-2]}
  fi
  COMPREPLY=()
  _ip_masq_agent_complete "$(_ip_masq_agent_command "\${COMP_WORDS[@]:1:COMP_CWORD-1}")" "$previous" "$current"
}
complete -o filenames -F _ip_masq_agent ip-masq-agent
`,
  zsh: `_ip_masq_agent_words() { compadd -- "$@" }
_ip_masq_agent_files() { _files }
_ip-masq-agent() {
  local current=\${words[CURRENT]} previous=\${words[CURRENT-1]}
  if [[ $current == --*=* ]]; then
    previous=\${current%%=*} current=\${current#*=}
    compset -P '*='
  fi
  _ip_masq_agent_complete "$(_ip_masq_agent_command "\${(@)words[2,CURRENT-1]}")" "$previous" "$current"
}
if [[ $funcstack[1] == _ip-masq-agent ]]; then
  _ip-masq-agent "$@"
else
  compdef _ip-masq-agent ip-masq-agent
fi
`,
};

function valueCases(commands: Commands): readonly string[] {
  const own = Object.entries(commands).flatMap(([command, table]) => valueCasesOf(command, table.own));
  return [...own, ...valueCasesOf('*', FLAGS)];
}

function valueCasesOf(command: string, table: FlagTable): readonly string[] {
  return Object.entries(table)
    .filter(([, { kind }]) => kind.placeholder !== '')
    .map(([name, flag]) => {
      const patterns = spellings(name, flag).map((word) => `${command}:${word}`);
      return `    ${patterns.join('|')}) ${valueReply(flag)}return ;;`;
    });
}

function valueReply({ kind: { placeholder, choices } }: Flag<unknown>): string {
  if (placeholder === 'PATH') return '_ip_masq_agent_files; ';
  return choices === undefined ? '' : `_ip_masq_agent_words ${choices.join(' ')}; `;
}

function flagCases(commands: Commands): readonly string[] {
  return Object.entries(commands).map(([command, { own }]) => {
    const words = Object.entries({ ...own, ...FLAGS }).flatMap(([name, flag]) => spellings(name, flag));
    return `    ${command}:-*) _ip_masq_agent_words ${[...words, '--help', '--version'].join(' ')}; return ;;`;
  });
}
