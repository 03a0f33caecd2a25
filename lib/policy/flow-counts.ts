import type { Family } from '../cidr/address.ts';
import { counted } from '../text/words.ts';
import { VERDICT_TEXT } from './policy.ts';

/** What the kernel does to a flow although the policy asks for something else, in the words of the metric. */
export const TREATMENTS = ['masqueraded', 'not_masqueraded', 'other_address'] as const;
export type Treatment = (typeof TREATMENTS)[number];

export const TREATMENT_TEXT: Readonly<Record<Treatment, string>> = {
  ...VERDICT_TEXT,
  other_address: 'masqueraded with another address',
};

/** Whether a flow began before the agent's last change, or since. */
export const BEGINNINGS = ['before', 'after'] as const;
export type Beginning = (typeof BEGINNINGS)[number];

/** Flows against the policy of one kind. */
export interface FlowCount {
  readonly family: Family;
  readonly verdict: Treatment;
  readonly since: Beginning;
  readonly flows: number;
}

/** How many flows these are together. */
export function sumOf(counts: readonly FlowCount[]): number {
  return counts.reduce((sum, { flows }) => sum + flows, 0);
}

/** Such as `2 connections: 1 masqueraded (IPv4), 1 not masqueraded (IPv4)`. */
export function countsText(counts: readonly FlowCount[]): string {
  const parts = counts.map(({ family, verdict, flows }) => `${flows} ${TREATMENT_TEXT[verdict]} (${family})`);
  return `${counted(sumOf(counts), 'connection')}: ${parts.join(', ')}`;
}
