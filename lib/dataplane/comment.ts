/** How every comment in rules of ours begins. */
export const COMMENT_START = 'ip-masq-agent: ';
