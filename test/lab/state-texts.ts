/** Config files of which all say the same. */
export function configFilesOf(word: string) {
  return ['ip-masq-1', 'ip-masq-2', 'ip-masq-3'].map((name) => ({ name, text: `# ${word.repeat(5_000)}\n` }));
}
