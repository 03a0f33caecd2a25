import { formatOrigin, type Located } from '../text/origin.ts';

export function scalarLine(key: string, value: string, located: Located<unknown>): string {
  return `${key}: ${value} ${originComment(located)}`;
}

export function originComment({ origin, others = [] }: Located<unknown>): string {
  const names = [origin, ...others].map((one) => commentText(formatOrigin(one)));
  return `# ${[...new Set(names)].join(', ')}`;
}

/** The text without the only printable characters that YAML does not allow, not even in comments: go-yaml refuses the file (YAML 1.1, 5.1). */
export function commentText(printableText: string): string {
  return printableText.replace(/[\ufffe\uffff]/g, '\ufffd');
}
