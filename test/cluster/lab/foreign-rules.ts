import { succeed } from '../../lab/run.ts';
import type { NodeAccess } from './nodes.ts';

const FAMILIES = ['iptables-nft', 'ip6tables-nft'] as const;
/** The tables that iptables keeps in nf_tables, which its own tools save. */
const OF_IPTABLES = ['filter', 'nat', 'mangle', 'raw', 'security'];

/**
 * Notes all rules of a node in nf_tables, but for the agent's table.
 *
 * @returns what writes them again, each table in one transaction
 */
export async function saveForeignRules({ run, must }: NodeAccess): Promise<() => Promise<void>> {
  const saved = await Promise.all(FAMILIES.map((tools) => must(`${tools}-save`)));
  const names = [...(await must('nft', 'list', 'tables')).matchAll(/^table (\S+) (\S+)$/gm)].map(
    ([, family = '', name = '']) => ({ family, name }),
  );
  const others = names.filter(({ name }) => name !== 'ip-masq-agent' && !OF_IPTABLES.includes(name));
  const listed = await Promise.all(
    others.map(async ({ family, name }) => {
      // Without a table, `delete` fails.
      const emptied = `table ${family} ${name} {}\ndelete table ${family} ${name}\n`;
      return `${emptied}${await must('nft', '--stateless', 'list', 'table', family, name)}`;
    }),
  );
  return async () => {
    for (const [index, tools] of FAMILIES.entries()) await succeed(run(`${tools}-restore`, [], saved[index]));
    for (const table of listed) await succeed(run('nft', ['--file', '-'], table));
  };
}
