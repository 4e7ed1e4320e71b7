// Functions of the stack convention, which assembly still has, with the registers of the other one full of other things.

// func stackSum(a, b int64) int64
TEXT ·stackSum(SB), 4, $0-24
	MOVQ a+0(FP), CX
	ADDQ b+8(FP), CX
	MOVQ CX, ret+16(FP)
	MOVQ $7777, AX
	MOVQ $7777, BX
	RET

// func stackScale(x float64, n int64) float64
TEXT ·stackScale(SB), 4, $0-24
	MOVSD x+0(FP), X1
	CVTSQ2SD n+8(FP), X2
	MULSD X2, X1
	MOVSD X1, ret+16(FP)
	MOVSD x+0(FP), X0
	MOVQ $7777, AX
	RET
